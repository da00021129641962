"""Event streams of sessions: read in pieces by many clients through one blocking connection per process."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from hermes_tasks.contracts.errors import StoreFull
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.store.client import Store, connect
from hermes_tasks.store.keys import user_key

STREAM_ID: Final = re.compile(r"\d{1,15}-\d{1,10}")
_BLOCK_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``id`` is the server's stream id, usable as ``Last-Event-ID``."""

    id: str
    type: str
    data: dict[str, Any]


def _order(stream_id: str) -> tuple[int, int]:
    head, tail = stream_id.split("-")
    return int(head), int(tail)


def _events(raw: Any) -> list[Event]:
    return [Event(name, fields["type"], json.loads(fields["data"])) for name, fields in raw]


class EventReader:
    """One per front process: a single blocking read serves all its clients."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._blocking = connect(store.url, connections=2)
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._seen: dict[str, str] = {}
        self._wake = f"ht:wake:{new_id()}"
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin reading."""
        self._task = asyncio.create_task(self._read(), name="event-reader")

    async def aclose(self) -> None:
        """Stop reading and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._blocking.aclose()

    async def kept_since(self, user: str, session: str, last: str) -> bool:
        """True when every event after ``last`` is still kept."""
        [first] = await self._store.read(("XRANGE", user_key(user, f"ev:{session}"), "-", "+", "COUNT", 1))
        if not first:
            return False
        return _order(str(first[0][0])) <= _order(last)

    async def newest(self, user: str, session: str) -> str:
        """Id of the newest event, or ``0-0``."""
        [last] = await self._store.read(("XREVRANGE", user_key(user, f"ev:{session}"), "+", "-", "COUNT", 1))
        return str(last[0][0]) if last else "0-0"

    async def follow(self, user: str, session: str, last: str) -> AsyncGenerator[Event | None, None]:
        """Events after ``last``, for ever; None about every 15 s while nothing happens, as a sign of life."""
        stream = user_key(user, f"ev:{session}")
        changed = asyncio.Event()
        self._waiters[stream].add(changed)
        self._seen.setdefault(stream, last)
        try:
            await self._wake_reader()
            while True:
                changed.clear()
                [raw] = await self._store.read(("XRANGE", stream, f"({last}", "+", "COUNT", 500))
                for event in _events(raw):
                    last = event.id
                    yield event
                if raw:
                    continue
                try:
                    async with asyncio.timeout(15):  # not wait_for, which may swallow a cancellation on 3.11
                        await changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self._waiters[stream].discard(changed)
            if not self._waiters[stream]:
                del self._waiters[stream]
                self._seen.pop(stream, None)

    async def _wake_reader(self) -> None:
        """Let the blocking read begin anew, with the streams that are followed now."""
        with suppress(StoreFull):  # it begins anew within _BLOCK_MS by itself
            await self._store.read(("XADD", self._wake, "MAXLEN", 1, "*", "n", 1), ("EXPIRE", self._wake, 3600))

    async def _read(self) -> None:
        woken = "0-0"
        while True:
            streams: Any = {self._wake: woken, **self._seen}
            try:
                found: Any = await self._blocking.xread(streams, count=1000, block=_BLOCK_MS)
            except (RedisError, OSError):
                for waiters in list(self._waiters.values()):
                    for waiter in waiters:
                        waiter.set()  # they look by themselves and meet the store's error or its return
                await asyncio.sleep(0.5)
                continue
            for stream, entries in found or []:
                newest = entries[-1][0]
                if stream == self._wake:
                    woken = newest
                elif stream in self._seen:
                    self._seen[stream] = newest
                for waiter in self._waiters.get(stream, ()):
                    waiter.set()
