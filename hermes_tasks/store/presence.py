"""Which queues somebody serves: every worker says so with each sweep, and is forgotten when it stops saying so."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from hermes_tasks.contracts.errors import StoreFull
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.store.client import Store

_KEY: Final = "ht:workers"
#: A worker that was silent for so many sweeps is taken for gone.
_SWEEPS: Final = 10
_KEPT_S: Final = 86_400


def process_name() -> str:
    """This process as operators see it: host:pid."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Presence:
    """What one process serves; without queues it says nothing."""

    def __init__(self, store: Store, queues: Sequence[Queue]) -> None:
        self._store = store
        self._members = [f"{queue}|{process_name()}" for queue in queues]

    async def announce(self) -> None:
        """Say that we serve these queues now."""
        if self._members:
            now = self._store.now_ms()
            scores = [value for member in self._members for value in (now, member)]
            with suppress(StoreFull):  # it only informs; what frees memory must go on
                await self._store.read(
                    ("ZADD", _KEY, *scores), ("ZREMRANGEBYSCORE", _KEY, "-inf", now - _KEPT_S * 1000)
                )


async def workers_on(store: Store, queue: Queue) -> list[str]:
    """The processes (host:pid) that serve the queue now."""
    since = store.now_ms() - _SWEEPS * store.config.sweep_ms
    [members] = await store.read(("ZRANGE", _KEY, since, "+inf", "BYSCORE"))
    return [name for served, _, name in (str(member).partition("|") for member in members) if served == queue]
