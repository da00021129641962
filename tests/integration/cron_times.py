"""Means to play the passing of time for jobs: a clock that is off, and jobs that were planned while nobody looked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermes_tasks.contracts.clock import SystemClock, to_ms
from hermes_tasks.cron.schedule import Schedule
from hermes_tasks.store.keys import user_key
from hermes_tasks.wiring.base import Base
from tests.integration.composed import USER

MINUTE, HOUR = 60_000, 3_600_000
LIMIT = 100


@dataclass
class ShiftedClock:
    """The machine's clock, ahead by ``by`` (behind, if negative)."""

    by: timedelta = timedelta()

    def now(self) -> datetime:
        return SystemClock().now() + self.by

    def monotonic(self) -> float:
        return SystemClock().monotonic()


def now_ms() -> int:
    return to_ms(SystemClock().now())


async def planned(base: Base, job: str, schedule: Schedule, planned_ms: int, *, user: str = USER) -> None:
    """A job that comes at ``planned_ms``, also when that has passed: as it is found after the system was down."""
    await base.jobs.add(user, job, f"the {job}", f"do {job}", schedule.wire(), now_ms() + HOUR, LIMIT)
    await base.store.read(
        ("HSET", user_key(user, f"job:{job}"), "next", planned_ms, "schedule", json.dumps(schedule.wire())),
        ("ZADD", user_key(user, "jobsdue"), planned_ms, job),
    )
    await base.jobs.hint(user, planned_ms)


async def stored(base: Base, job: str, user: str = USER) -> dict[str, str]:
    """The job's record as it is stored."""
    [fields] = await base.store.read(("HGETALL", user_key(user, f"job:{job}")))
    return dict(fields)
