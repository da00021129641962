"""Admission to model providers as all workers share it: permits, rates and pauses, and who is woken when."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from hermes_tasks.contracts.admission import Caller, Wait
from hermes_tasks.contracts.errors import NotFound, Retryable
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunState, WaitReason
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.permits import Lane, Permits, Reply, member_of, run_of
from hermes_tasks.store.rates import Rates
from hermes_tasks.store.runs import Runs

#: Giving a permit back takes no longer; afterwards it runs out by itself.
_LEAVE_S: Final = 1.0
#: A run in line asks again by itself after about so long, should nobody be left to wake it; longer in a long line,
#: so that they do not all come at once.
_AGAIN_S: Final = 5.0
_AGAIN_PER_RUN_S: Final = 0.25
_AGAIN_AT_MOST_S: Final = 120.0
#: What runs in line are paused for.
_OURS: Final = (WaitReason.PERMIT, WaitReason.RATE)

_log = get_logger(__name__)


class StoreAdmission:
    """Implements ``Admission``. One per process, in one event loop; :meth:`aclose` ends its keeper.

    The keeper is one task. Once a second it renews the permits of the calls that are on and lets the lines move; and it
    wakes whoever got a permit. What one process granted and then failed to tell, the keeper of another tells.

    Args:
        lanes: by the names of the configured models.
        fallbacks: which model's fallback is which.
        tick: how often the keeper looks.
    """

    def __init__(
        self, permits: Permits, rates: Rates, runs: Runs, lanes: Mapping[str, Lane], fallbacks: Mapping[str, str], *,
        tick: timedelta = timedelta(seconds=1),
    ) -> None:  # fmt: skip
        self._permits, self._rates, self._runs = permits, rates, runs
        self._lanes, self._fallbacks = dict(lanes), dict(fallbacks)
        self._tick_s = tick.total_seconds()
        self._held: dict[tuple[str, str], Lane] = {}
        self._looked: set[str] = set()
        self._busy: set[tuple[str, str]] = set()
        self._woken: asyncio.Queue[tuple[Lane, str]] = asyncio.Queue()
        self._tending = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """End the keeper. Permits that are still held run out."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def enter(self, caller: Caller, model: str) -> str | Wait:
        """See ``Admission``."""
        lane = self._lane(model)
        others = self._fallbacks_of(model)
        wait = await self._enter(lane, caller, stands=not others)
        if wait is None:
            return model
        if wait.why is WaitReason.RATE:
            for name in others:
                if await self._enter(self._lanes[name], caller, stands=False) is None:
                    return name
        return (await self._enter(lane, caller, stands=True) or model) if others else wait

    async def enter_fallback(self, caller: Caller, model: str) -> Wait | None:
        """See ``Admission``."""
        return await self._enter(self._lane(model), caller, stands=False)

    async def leave(self, caller: Caller) -> None:
        """See ``Admission``."""
        member = member_of(caller)
        for key in [key for key in self._held if key[1] == member]:
            lane = self._held.pop(key)
            try:
                # Not while the keeper renews: its list may still name us.
                async with asyncio.timeout(_LEAVE_S), self._tending:
                    self._tell(lane, await self._permits.leave(lane, member))
            except (TimeoutError, Retryable) as error:
                _log.warning("permit not given back; it runs out", reason=str(error) or "timed out")

    async def limited(self, model: str, retry_after: timedelta | None) -> float:
        """See ``Admission``."""
        lane = self._lane(model)
        reply = await self._permits.pause(lane, retry_after or None)
        self._busy.add((lane.endpoint, lane.model))
        _log.warning("model paused by its provider", model=model, seconds=round(reply.left_s, 1))
        return reply.left_s

    def _lane(self, model: str) -> Lane:
        return self._lanes.setdefault(model, Lane(derived_id(model), derived_id(model)))

    def _fallbacks_of(self, model: str) -> list[str]:
        """Who may answer instead, in order; none twice."""
        found: list[str] = []
        name = self._fallbacks.get(model)
        while name is not None and name != model and name not in found and name in self._lanes:
            found.append(name)
            name = self._fallbacks.get(name)
        return found

    async def _enter(self, lane: Lane, caller: Caller, *, stands: bool) -> Wait | None:
        self._keep()
        limits = lane.max_concurrent is not None or lane.rated
        if not limits and lane.endpoint in self._looked and (lane.endpoint, lane.model) not in self._busy:
            return None
        member = member_of(caller)
        reply = await self._permits.enter(lane, member, stands=stands)
        self._tell(lane, reply)
        if reply.word == "ok":
            self._held[lane.endpoint, member] = lane
            pause = await self._rates.take(lane, caller.tokens) if lane.rated else None
            if pause is None:
                return None
            self._held.pop((lane.endpoint, member), None)
            reply = await self._permits.pause(lane, pause, back=member if stands else "")
            if not stands:
                self._tell(lane, await self._permits.leave(lane, member))
        self._busy.add((lane.endpoint, lane.model))
        spread = (_AGAIN_S + _AGAIN_PER_RUN_S * reply.waiting) * random.uniform(0.5, 1.5)
        why = WaitReason.PERMIT if reply.word == "full" else WaitReason.RATE
        return Wait(why, reply.left_s, reply.left_s + min(spread, _AGAIN_AT_MOST_S))

    # -- the keeper ------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._run(), name="admission-keeper")

    def _tell(self, lane: Lane, reply: Reply) -> None:
        for member in reply.wake:
            self._woken.put_nowait((lane, member))

    async def _run(self) -> None:
        next_look = time.monotonic()
        while True:
            left = next_look - time.monotonic()
            try:
                if left <= 0:
                    await self._tend()
                    next_look = time.monotonic() + self._tick_s
                    continue
                async with asyncio.timeout(left):
                    lane, member = await self._woken.get()
            except TimeoutError:
                continue
            except Retryable as error:
                _log.warning("lines of the models not looked at", reason=str(error))
                next_look = time.monotonic() + self._tick_s
                continue
            await self._wake(lane, member)

    async def _tend(self) -> None:
        for endpoint, lane in {lane.endpoint: lane for lane in self._lanes.values()}.items():
            allowed = {
                other.model: await self._rates.allowed(other)
                for other in self._lanes.values()
                if other.endpoint == endpoint and other.rated and (endpoint, other.model) in self._busy
            }
            async with self._tending:
                members = [member for at, member in self._held if at == endpoint]
                reply = await self._permits.tend(lane, allowed, members)
            self._looked.add(endpoint)
            self._busy = {key for key in self._busy if key[0] != endpoint} | {(endpoint, name) for name in reply.busy}
            self._tell(lane, reply)

    async def _wake(self, lane: Lane, member: str) -> None:
        """Tell a run that it has a permit. It may be on its way already; if it does not wait any more, others may."""
        user, run = run_of(member)
        try:
            if await self._runs.wake(user, run, *_OURS):
                return
            try:
                record = await self._runs.get(user, run)
            except NotFound:
                record = None
            if record is None or record.state.terminal or _waits_for_else(record):
                self._tell(lane, await self._permits.leave(lane, member, uncalled=True))
        except Retryable as error:
            _log.warning("run not woken; it is told again", user=user, run=run, reason=str(error))


def _waits_for_else(record: RunRecord) -> bool:
    return record.state is RunState.WAITING and record.why not in _OURS
