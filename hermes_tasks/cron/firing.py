"""Firing: every scheduler asks for what is due and claims it; the store decides who was first."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from hermes_tasks.contracts.clock import Clock, to_ms
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.cron.schedule import schedule_from
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.jobs import Jobs

_log = get_logger(__name__)
_AT_ONCE: Final = 16


class Firing:
    """Claims due jobs. Any number of processes may do so at once.

    Args:
        one_shot_grace_s: a one-shot later than this is marked missed and its owner is told.
    """

    def __init__(self, jobs: Jobs, clock: Clock, *, one_shot_grace_s: int) -> None:
        self._jobs, self._clock, self._grace_ms = jobs, clock, one_shot_grace_s * 1000
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def fire_due(self) -> int:
        """Claim everything that is due now; returns how many runs were started here."""
        await self._jobs.ticked()
        fired = await asyncio.gather(*(self._of_user(user, hint) for user, hint in await self._jobs.due_users()))
        return sum(fired)

    async def _of_user(self, user: str, hint: float) -> int:
        async with self._gate:
            started = 0
            try:
                jobs, _ = await self._jobs.due(user)
                for job in jobs:
                    started += await self._one(user, job)
                _, coming = await self._jobs.due(user, 1)
            except InvalidRequest:  # the user is gone or disabled, which no script fires for
                coming = 0
            await self._jobs.settle_hint(user, hint, coming)
            return started

    async def _one(self, user: str, job: dict[str, Any]) -> int:
        planned, schedule = int(job["next"]), schedule_from(job["schedule"])
        now = to_ms(self._clock.now())
        coming = schedule.after(max(now, planned))
        missed = not schedule.every_s and now - planned > self._grace_ms
        word = await self._jobs.fire(
            user, job["id"], str(job["version"]), planned, coming, derived_id("fire", user, job["id"], planned),
            missed=missed, skipped=schedule.between(planned, now),
        )  # fmt: skip
        if word != "stale":
            _log.info("fire", user=user, job=job["id"], outcome=word, late_ms=now - planned)
        return int(word == "fired")
