"""Who may call a model's provider now: permits for calls side by side, rates, and the pauses a provider asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from hermes_tasks.contracts.kinds import WaitReason


@dataclass(frozen=True, slots=True)
class Caller:
    """The run for which a model is to be asked. It makes one call at a time.

    Attributes:
        turn: a person waits for it.
        tokens: an estimate of what the call needs, its answer included.
    """

    user: str
    run: str
    turn: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that may not be made now.

    Attributes:
        least_s: it will certainly not be allowed before; 0 = not known.
        wait_s: ask again then. Who stands in line is woken before, as soon as it is their turn.
    """

    why: WaitReason
    least_s: float
    wait_s: float


class Admission(Protocol):
    """Asked before and after every call of a model, by every worker."""

    async def enter(self, caller: Caller, model: str) -> str | Wait:
        """Take a permit for one call.

        Returns:
            The name of the model to ask: ``model``, or a fallback of it while its rate limit is reached. Or how long
            to wait: the caller stands in line and is woken; it must hold no slot meanwhile.

        Called again by the same run, it finds its own permit, or its place in the line.
        """
        ...

    async def enter_fallback(self, caller: Caller, model: str) -> Wait | None:
        """Take a permit at a fallback's endpoint beside the one that is held; None = it may be asked.

        Nobody stands in line for a fallback.
        """
        ...

    async def leave(self, caller: Caller) -> None:
        """Give back every permit this process holds for the caller. Never raises: what is not given back runs out."""
        ...

    async def limited(self, model: str, retry_after: timedelta | None) -> float:
        """A provider refused a call for its rate: from now on nobody asks there for a while.

        Args:
            retry_after: what the provider said; None = the pause grows with each refusal.

        Returns:
            Seconds until it may be asked again.
        """
        ...
