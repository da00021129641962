"""The journal: one run under our lease, as the agent loop sees it. The store implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolStep
from hermes_tasks.contracts.tools import Slot

AnyStep = ModelStep | StartedStep | ToolStep | SummaryStep


class Journal(Protocol):
    """The sole right to advance one run, until the lease is lost.

    Every write compares fence, holder and the expected step index. Any mismatch raises ``LeaseLost``
    (or ``RunCancelled`` when the run was ended from outside); the caller stops and writes nothing more.
    """

    @property
    def record(self) -> RunRecord:
        """The record as it was at the claim."""
        ...

    @property
    def attempt(self) -> int:
        """The fence: grows with every claim, so deltas of an older holder can be told apart."""
        ...

    @property
    def steps(self) -> Sequence[AnyStep]:
        """All stored steps, oldest first; grows with every append."""
        ...

    async def ready(self) -> None:
        """Return when the lease was renewed less than 2 s ago; no model or tool call may start before.

        Raises:
            LeaseLost, RunCancelled: it will not come back.
        """
        ...

    async def append(self, step: AnyStep) -> None:
        """Store one step. A second call after a broken reply changes nothing and succeeds."""
        ...

    def slot(self, call: int, name: str) -> AbstractAsyncContextManager[Slot]:
        """Reserve the next step index for a script that writes an effect and its step together."""
        ...

    async def emit(self, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append events to the session's stream under the lease; does nothing for a run without a session."""
        ...

    async def suspend(self) -> bool:
        """Store the run as ``waiting`` and give the lease back.

        Returns False when nothing is pending any more: the caller goes on with the joined results.
        """
        ...

    async def release(self) -> None:
        """Give the lease back: the run is ``queued`` again and rung, its attempt unchanged.

        Does nothing when the lease is lost or was given back before.
        """
        ...

    def seconds_left(self) -> float:
        """Until the run's deadline."""
        ...
