"""Recovery: finds expired leases, lost doorbells and due timers of every user, and puts them right.

Runs in every worker. A short lock per shard only limits load; every action is a compare-and-set in ``due.lua``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from redis.exceptions import RedisError

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.errors import InvalidRequest, Retryable, StoreFull
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store import hints
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import SHARDS, job_shard_key, shard_key, user_key
from hermes_tasks.store.presence import Presence
from hermes_tasks.store.rings import rings_of

_PER_SHARD: Final = 200
_PER_USER: Final = 200

_log = get_logger(__name__)


class Recovery:
    """One sweeper.

    Args:
        queues: what this process takes doorbells from, so that others can see that somebody does.
        on_takeover: told how many leases a sweep took over.
    """

    def __init__(
        self, store: Store, bell: Bell, *, queues: Sequence[Queue] = (),
        on_takeover: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self._store, self._bell, self._on_takeover = store, bell, on_takeover
        self._name = new_id()
        self._presence = Presence(store, queues)
        self._last: float | None = None
        self._calm_from = 0.0
        self._server_run = ""

    async def run(self) -> None:
        """Sweep for ever, twice a second."""
        pause = self._store.config.sweep_ms / 1000
        while True:
            began = time.monotonic()
            try:
                await self.sweep()
            except (Retryable, RedisError, OSError):
                self._last = None  # a gap: whoever is alive must get the chance to renew first
            await asyncio.sleep(max(0.05, pause - (time.monotonic() - began)))

    def _calm(self) -> bool:
        """True when leases may be taken over: our sweep has stood still nowhere for one lease length.

        A store that was frozen, restarted or out of reach for us was so for the holders too: their leases look
        expired, and they renew them as soon as they can.
        """
        now, lease_s = time.monotonic(), self._store.config.lease_ms / 1000
        if self._last is None or now - self._last > lease_s / 2:
            self._calm_from = now + lease_s
        self._last = now
        return now >= self._calm_from

    async def sweep(self) -> int:
        """Look at every user who is due once; returns how many were."""
        self._calm()
        # A shard with no user due costs one read; its lock is taken only for work.
        now = self._store.now_ms()
        replies = await self._store.read(
            ("INFO", "server"),
            *(
                ("ZRANGE", f"ht:shard:{n}", "-inf", now, "BYSCORE", "LIMIT", 0, _PER_SHARD, "WITHSCORES")
                for n in range(SHARDS)
            ),
        )
        self._note_restart(str(replies[0].get("run_id", "")))
        self._store.saw_time(int(replies[0]["server_time_usec"]) // 1000)
        await self._presence.announce()
        looked = 0
        for number, flat in enumerate(replies[1:]):
            pairs = (
                flat if flat and isinstance(flat[0], tuple | list) else list(zip(flat[::2], flat[1::2], strict=True))
            )
            if pairs and await self._mine(number):
                for user, score in pairs:
                    await self._look(str(user), float(score))
                    looked += 1
        self._calm()
        return looked

    def _note_restart(self, run_id: str) -> None:
        """The server may be another process than at our last sweep."""
        if run_id != self._server_run:
            self._calm_from = time.monotonic() + self._store.config.lease_ms / 1000
        self._server_run = run_id

    async def _mine(self, number: int) -> bool:
        lock = f"ht:sweep:recovery:{number}"
        keep = max(50, self._store.config.sweep_ms - 100)
        try:
            [mine] = await self._store.read(("SET", lock, self._name, "NX", "PX", keep))
        except StoreFull:
            return True  # the lock only limits load, and what frees memory must go on
        return bool(mine)

    async def _look(self, user: str, score: float) -> None:
        since = self._store.now_ms() if self._calm() else 0
        try:
            answer = await self._store.call("due", user, since, _PER_USER)
        except InvalidRequest:
            answer = {"next": 0}
        await self._store.read(hints.move(shard_key(user), user, score, int(answer["next"])))
        for member, fault in answer.get("faults") or []:
            _log.error("record cannot be put right", user=user, record=member, reason=fault)
        if answer.get("takeovers") and self._on_takeover is not None:
            self._on_takeover(int(answer["takeovers"]))
        await self._bell.ring(rings_of(user, answer))

    async def reindex(self) -> int:
        """Rebuild the global shards from the user registry; safe at any time. Returns how many users it looked at."""
        [names] = await self._store.read(("SMEMBERS", "ht:users"))
        for user in names:
            due, jobs = await self._store.read(
                ("ZRANGE", user_key(user, "due"), 0, 0, "WITHSCORES"),
                ("ZRANGE", user_key(user, "jobsdue"), 0, 0, "WITHSCORES"),
            )
            for key, first in ((shard_key(user), due), (job_shard_key(user), jobs)):
                if first:
                    flat = list(first[0]) if isinstance(first[0], tuple | list) else list(first)
                    await self._store.read(hints.put_at(key, user, float(flat[1])))
        return len(names)
