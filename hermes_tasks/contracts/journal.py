"""The journal: one run under our lease, as the agent loop sees it. The store implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hermes_tasks.contracts.runs import Outcome, OverBudget, Pause, RunRecord
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

    async def append(self, step: AnyStep, events: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """Store one step, and tell the session's watchers. A second call after a broken reply changes nothing.

        Calls from tasks side by side, and blocks of :meth:`slot`, take turns.
        """
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

    async def reserve(self, tokens: int, day_limit: int) -> OverBudget | None:
        """Set tokens of the user's day aside for the next model call; settled when its answer is appended.

        A second call reserves the same anew, not more.

        Args:
            day_limit: tokens that the user may use in one day of the user's own zone.
        """
        ...

    async def pause(self, pause: Pause) -> None:
        """Store the run as ``waiting`` for a while and give lease and window place back: no slot is held.

        A second call after a broken reply changes nothing.
        """
        ...

    async def release(self) -> None:
        """Give the lease back: the run is ``queued`` again and rung, its attempt unchanged.

        Does nothing when the lease is lost or was given back before.
        """
        ...

    async def pin(self, opening: str, system: str) -> tuple[str, str]:
        """Pin what the model sees of a turn; returns what is pinned, whoever pinned it first.

        Args:
            opening: the model's copy of the opening message, recall included.
            system: the system prompt, pinned for the generation of the session.
        """
        ...

    async def finish(self, outcome: Outcome) -> None:
        """End the run; what its end means for others (join, history, delivery) happens in the same script.

        A second call after a broken reply changes nothing.
        """
        ...

    def seconds_left(self) -> float:
        """Until the run's deadline."""
        ...
