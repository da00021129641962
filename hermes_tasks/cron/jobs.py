"""Making jobs, and saying what was understood."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hermes_tasks.contracts.clock import Clock, from_ms, to_ms
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.cron.schedule import parse
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.store.users import Users

#: A scheduler ticks at least every second; after this long without a sign of life it is called dead.
SCHEDULER_SILENT: timedelta = timedelta(seconds=15)
_MAX_PROMPT_CHARS = 20_000


class JobDesk:
    """Where users' jobs are made.

    Args:
        min_interval_s: the smallest interval.
        limit: jobs per user.
    """

    def __init__(self, jobs: Jobs, users: Users, clock: Clock, *, min_interval_s: int, limit: int) -> None:
        self._jobs, self._users, self._clock = jobs, users, clock
        self._min_interval_s, self._limit = min_interval_s, limit

    async def add(self, user: str, name: str, prompt: str, every: str | None, at: str | None) -> dict[str, Any]:
        """Make a job, and say how it was understood.

        The answer has its meaning in words, its next three times in the user's zone, and a warning when no scheduler
        is alive to fire it.

        Raises:
            InvalidRequest: schedule or prompt cannot be used; nothing was stored.
        """
        if not prompt.strip():
            raise InvalidRequest("the prompt is empty: say what the job has to do", field="prompt")
        if len(prompt) > _MAX_PROMPT_CHARS:
            raise InvalidRequest(
                f"the prompt has {len(prompt)} characters, {_MAX_PROMPT_CHARS} are allowed", field="prompt"
            )
        zone = (await self._users.get(user)).zone
        now = self._clock.now()
        schedule = parse(every, at, now=now, zone=zone, min_interval_s=self._min_interval_s)
        times: list[int] = []
        moment = to_ms(now)
        while len(times) < 3 and (moment := schedule.after(moment)):
            times.append(moment)
        job = new_id()
        title = name.strip()[:120] or prompt.strip().splitlines()[0][:60]
        await self._jobs.add(user, job, title, prompt, schedule.wire(), times[0], self._limit)
        shown = [from_ms(time).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds") for time in times]
        return {
            "job": job, "name": title, "schedule": schedule.words(zone), "next": shown, "zone": zone,
            "warning": await self.warning(),
        }  # fmt: skip

    async def warning(self) -> str:
        """One line when nothing is firing jobs at present, else ""."""
        last = await self._jobs.last_tick_ms()
        if last is None:
            return "no scheduler has ever run on this store: start one, or jobs will not fire"
        age = self._clock.now() - from_ms(last)
        if age > SCHEDULER_SILENT:
            return f"the scheduler was last seen {int(age.total_seconds())} s ago: jobs fire when it is back"
        return ""
