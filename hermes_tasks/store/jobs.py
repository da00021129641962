"""Jobs: users' schedules, claimed fire by fire; and the deliveries their answers become."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.store import hints
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import SHARDS, job_shard_key, user_key
from hermes_tasks.store.rings import rings_of


class Jobs:
    """The jobs of every user."""

    def __init__(self, store: Store, bell: Bell) -> None:
        self._store, self._bell = store, bell

    async def add(
        self, user: str, job: str, name: str, prompt: str, schedule: Mapping[str, Any], first_ms: int, limit: int
    ) -> None:
        """Store a job that fires first at ``first_ms``. The same id again changes nothing.

        Raises:
            InvalidRequest: the user has ``limit`` jobs, or the time has passed.
        """
        await self.hint(user, first_ms)
        answer = await self._store.call("job_add", user, job, name, prompt, json.dumps(schedule), first_ms, limit)
        await self.hint(user, first_ms)
        if answer["r"] == "full":
            raise InvalidRequest(
                f"you have {answer['jobs']} jobs and {limit} are allowed; remove one first", field="jobs"
            )
        if answer["r"] == "past":
            raise InvalidRequest("that time has passed; give one in the future", field="schedule")

    async def all(self, user: str) -> list[dict[str, Any]]:
        """The user's jobs, by their next time; ``schedule`` is decoded, ``next`` is ms (0 = none)."""
        [names] = await self._store.read(("SMEMBERS", user_key(user, "jobs")))
        records = (
            await self._store.read(*(("HGETALL", user_key(user, f"job:{name}")) for name in names)) if names else []
        )
        jobs = [
            {**fields, "schedule": json.loads(fields["schedule"]), "next": int(fields["next"])}
            for fields in records
            if fields
        ]
        return sorted(jobs, key=lambda job: (job["next"] == 0, job["next"]))

    async def ledger(self, user: str, job: str) -> list[dict[str, Any]]:
        """What became of the job's slots, newest first."""
        [texts] = await self._store.read(("LRANGE", user_key(user, f"ledger:{job}"), 0, -1))
        return [json.loads(text) for text in texts]

    async def hint(self, user: str, at_ms: int) -> None:
        """Tell the schedulers to look at this user at ``at_ms`` at the latest; before and after the record's script."""
        await self._store.read(hints.put_at(job_shard_key(user), user, at_ms))

    async def due_users(self) -> list[tuple[str, float]]:
        """(user, hint) of everyone whose jobs must be looked at now."""
        now = self._store.now_ms()
        (seconds, micros), *shards = await self._store.read(
            ("TIME",),
            *(
                ("ZRANGE", f"ht:jobshard:{n}", "-inf", now, "BYSCORE", "LIMIT", 0, 1000, "WITHSCORES")
                for n in range(SHARDS)
            ),
        )
        self._store.saw_time(int(seconds) * 1000 + int(micros) // 1000)
        return [(flat[i], float(flat[i + 1])) for flat in shards for i in range(0, len(flat), 2)]

    async def due(self, user: str, limit: int = 200) -> tuple[list[dict[str, Any]], int]:
        """The user's jobs whose planned time has come, and when the next is due (ms, 0 = none)."""
        answer = await self._store.call("jobs_due", user, limit)
        jobs = answer["jobs"] or []
        return [{**job, "schedule": json.loads(job["schedule"])} for job in jobs], int(answer["next"])

    async def settle_hint(self, user: str, was: float, next_ms: int) -> None:
        """Move the user's hint to ``next_ms`` (0 = remove), unless somebody changed it since it was read."""
        await self._store.read(hints.move(job_shard_key(user), user, was, next_ms))

    async def fire(
        self, user: str, job: str, version: str, planned_ms: int, next_ms: int, run: str, *, missed: bool, skipped: int
    ) -> str:
        """Claim one planned time. Returns the script's word; only ``fired`` started a run."""
        answer = await self._store.call(
            "job_fire", user, job, version, planned_ms, next_ms, run, "0" if missed else "1", skipped,
            hint_ms=self._store.config.ring_ms,
        )  # fmt: skip
        await self._bell.ring(rings_of(user, answer))
        return str(answer["r"])

    async def deliver(self, user: str, delivery: str) -> str:
        """Hand an owed delivery to the user's inbox; a second call changes nothing."""
        return str((await self._store.call("deliver_inbox", user, delivery))["r"])

    async def mail(self, user: str, limit: int = 100) -> list[dict[str, Any]]:
        """The user's inbox, oldest first."""
        [texts] = await self._store.read(("LRANGE", user_key(user, "mail"), -limit, -1))
        return [json.loads(text) for text in texts]

    async def ticked(self) -> None:
        """Leave the scheduler's sign of life."""
        await self._store.read(("SET", "ht:beat", self._store.now_ms(), "EX", 86_400))

    async def last_tick_ms(self) -> int | None:
        """When a scheduler last looked, or None."""
        [value] = await self._store.read(("GET", "ht:beat"))
        return int(value) if value else None

    async def claim_slot(self, entry: str, slot: int, keep_s: int) -> bool:
        """Claim one time of a system entry; True for the first who asks."""
        [first] = await self._store.read(("SET", f"ht:slot:{entry}:{slot}", 1, "NX", "EX", keep_s))
        return bool(first)
