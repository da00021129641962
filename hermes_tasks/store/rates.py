"""Calls and tokens per minute at a model endpoint, counted for all workers by the library ``limits``."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Final

from limits import RateLimitItem, RateLimitItemPerMinute, WindowStats
from limits.aio.storage import RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from hermes_tasks.store.client import Store
from hermes_tasks.store.permits import Lane

_SOONEST: Final = timedelta(milliseconds=200)
#: Weight of the newest call in the usual size of one.
_NEWEST: Final = 0.2


class Rates:
    """The rates of lanes, in a window that slides; exact to the share of the minute before that still counts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # On our own connections: their timeouts and their limit hold here as well. The address is not used.
        storage = RedisStorage(
            "async+redis://",
            implementation="redispy",
            key_prefix="ht",
            connection_pool=store.redis.connection_pool,  # type: ignore[arg-type]  # documented, not in its types
        )
        self._limiter = SlidingWindowCounterRateLimiter(storage)
        self._usual: dict[Lane, float] = {}

    async def take(self, lane: Lane, tokens: int) -> timedelta | None:
        """Count one call; None when it may be made, else how long to wait at least. Not repeated, since it counts.

        A call that is larger than a whole minute's tokens passes when the minute is empty: only the provider knows
        whether it takes it.

        Raises:
            StoreUnavailable: whether it was counted is not known.
        """
        known = self._usual.get(lane, float(tokens))
        self._usual[lane] = known + _NEWEST * (tokens - known)
        for what, item, cost in _items(lane, tokens):
            if not await self._store.once(partial(self._limiter.hit, item, lane_id(lane), what, cost=cost)):
                return await self._wait(lane, what, item, cost)
        return None

    async def allowed(self, lane: Lane) -> int:
        """How many usual calls could be made now."""
        counts = []
        for what, item, cost in _items(lane, max(1, round(self._usual.get(lane, 1.0)))):
            counts.append((await self._stats(lane, what, item)).remaining // cost)
        return min(counts)

    async def _stats(self, lane: Lane, what: str, item: RateLimitItem) -> WindowStats:
        return await self._store.once(partial(self._limiter.get_window_stats, item, lane_id(lane), what))

    async def _wait(self, lane: Lane, what: str, item: RateLimitItem, cost: int) -> timedelta:
        stats = await self._stats(lane, what, item)
        until_change = stats.reset_time - self._store.clock.now().timestamp()
        until_enough = (cost - stats.remaining) * item.get_expiry() / item.amount
        return max(_SOONEST, timedelta(seconds=min(max(until_change, until_enough), 2 * item.get_expiry())))


def lane_id(lane: Lane) -> str:
    """The lane in the names of its keys."""
    return f"{lane.endpoint}.{lane.model}"


def _items(lane: Lane, tokens: int) -> list[tuple[str, RateLimitItem, int]]:
    """(what is counted, its limit, what one call costs)."""
    found: list[tuple[str, RateLimitItem, int]] = []
    if lane.requests_per_minute is not None:
        found.append(("requests", RateLimitItemPerMinute(lane.requests_per_minute, namespace="p"), 1))
    if lane.tokens_per_minute is not None:
        item = RateLimitItemPerMinute(lane.tokens_per_minute, namespace="p")
        found.append(("tokens", item, max(1, min(tokens, lane.tokens_per_minute))))
    return found
