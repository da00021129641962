"""Pauses of a run: how the loop is told to store one, how long after a failure, and admission for one process alone."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from hermes_tasks.contracts.admission import Caller, Wait
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import WaitReason
from hermes_tasks.contracts.runs import Pause

#: A longer wait holds no slot.
SHORT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
#: A pause after a refusal that named none.
_UNSAID_S: Final = 5.0


class Paused(Exception):
    """The run must wait: the loop stores this pause and lets go of it. Not an error, and never seen outside of it."""

    def __init__(self, pause: Pause) -> None:
        super().__init__(pause.why)
        self.pause = pause


def backoff(run: str, failures: int) -> float:
    """Seconds until a call is tried again: up to 1, 2, 4 … 30. Runs that failed together come back apart."""
    spread = int(derived_id(run, failures)[:4], 16) / 0xFFFF
    return float(min(_LONGEST_WAIT_S, SHORT_S * 2 ** (failures - 1)) * (0.5 + spread / 2))


class AloneAdmission:
    """Implements ``Admission`` for a process that shares nothing: no limits, but a refused model is paused."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    async def enter(self, caller: Caller, model: str) -> str | Wait:
        """See ``Admission``."""
        return await self.enter_fallback(caller, model) or model

    async def enter_fallback(self, caller: Caller, model: str) -> Wait | None:  # noqa: ARG002 - the port's signature
        """See ``Admission``."""
        left = self._until.get(model, 0.0) - time.monotonic()
        return Wait(WaitReason.RATE, left, left) if left > 0 else None

    async def leave(self, caller: Caller) -> None:
        """See ``Admission``."""

    async def limited(self, model: str, retry_after: timedelta | None) -> float:
        """See ``Admission``."""
        wait = _UNSAID_S if retry_after is None else retry_after.total_seconds()
        self._until[model] = time.monotonic() + wait
        return wait
