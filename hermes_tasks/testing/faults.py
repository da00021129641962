"""A store that lets a test meet every script at two moments: before it is sent, and when its answer is still unseen.

Between these two lies everything that a crash can tear apart: what is written and what the writer knows of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hermes_tasks.store.client import BRISK, Store, StoreConfig


@dataclass(frozen=True, slots=True)
class Moment:
    """A script on its way, or just back.

    Attributes:
        args: the script's own arguments, from ``ARGV[2]`` on.
        answer: None = it is not sent yet; else what the store answered, which the caller does not know yet.
    """

    script: str
    user: str
    args: tuple[str | int, ...]
    answer: Mapping[str, Any] | None = None


Meet = Callable[[Moment], Awaitable[None]]


class WatchedStore(Store):
    """A store whose callers are met twice per script. Lease renewals have a connection of their own and pass unseen.

    Args:
        meet: awaited at both moments; while it waits, so does the caller, and whoever kills the process meanwhile kills
            it exactly there.
    """

    def __init__(self, url: str, config: StoreConfig, *, meet: Meet) -> None:
        super().__init__(url, config)
        self._meet = meet

    async def call(
        self, script: str, user: str, *args: str | int, hint_ms: int | None = None, patience: timedelta = BRISK
    ) -> dict[str, Any]:
        """See :meth:`Store.call`."""
        await self._meet(Moment(script, user, args))
        answer = await super().call(script, user, *args, hint_ms=hint_ms, patience=patience)
        await self._meet(Moment(script, user, args, answer))
        return answer
