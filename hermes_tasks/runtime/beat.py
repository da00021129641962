"""Our scheduler class on Celery's beat. It keeps no schedule: users' jobs and claimed slots are records in the store.

Any number of beats may run: each tick asks what is due and claims it in the store, so a second beat finds nothing left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from celery import Celery
from celery.apps.beat import Beat
from celery.beat import Scheduler

from hermes_tasks.contracts.bell import Bell, Ring
from hermes_tasks.contracts.clock import Clock, SystemClock
from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.observe.ready import tell_ready
from hermes_tasks.runtime.bridge import LoopBridge

_log = get_logger(__name__)
#: Seconds between two looks: how late a due fire may be found.
TICK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """What the installation itself does on a timer; ``every_s`` counts from the epoch, the same on every machine."""

    name: str
    every_s: int
    task: str
    queue: Queue


class HermesScheduler(Scheduler):
    """See the module. Composed before Celery makes it: the class is all that Celery's beat lets us hand in."""

    bridge: ClassVar[LoopBridge]
    fire_due: ClassVar[Callable[[], Awaitable[int]]]
    claim_slot: ClassVar[Callable[[str, int, int], Awaitable[bool]]]
    bell: ClassVar[Bell]
    entries: ClassVar[Sequence[SystemEntry]] = ()
    clock: ClassVar[Clock] = SystemClock()

    @classmethod
    def compose(
        cls,
        bridge: LoopBridge,
        fire_due: Callable[[], Awaitable[int]],
        claim_slot: Callable[[str, int, int], Awaitable[bool]],
        entries: Sequence[SystemEntry],
        bell: Bell,
    ) -> None:
        """Hand in what a tick needs. The bell publishes off the loop: a broker that is away holds up no fire."""
        cls.bridge, cls.entries, cls.bell = bridge, entries, bell
        cls.fire_due, cls.claim_slot = staticmethod(fire_due), staticmethod(claim_slot)

    def setup_schedule(self) -> None:
        """Nothing to load: the store is the schedule."""

    def tick(self, *_: Any, **__: Any) -> float:
        """Claim what is due; returns seconds until the next look. A store that is away costs this look only."""
        try:
            self.bridge.run(self._look())
            tell_ready()
        except (HermesTasksError, OSError) as error:
            _log.warning("tick failed; the next one looks again", reason=f"{type(error).__name__}: {error}")
        return TICK_S

    async def _look(self) -> None:
        await type(self).fire_due()
        for entry in self.entries:
            slot = int(self.clock.now().timestamp()) // entry.every_s
            if slot != self._seen.get(entry.name):
                if await type(self).claim_slot(entry.name, slot, max(3600, 2 * entry.every_s)):
                    _log.info("system entry", entry=entry.name, slot=slot)
                    await self.bell.ring([Ring(entry.queue, entry.task, ())])
                self._seen[entry.name] = slot

    @property
    def _seen(self) -> dict[str, int]:
        seen: dict[str, int] = self.__dict__.setdefault("seen_slots", {})
        return seen

    @property
    def info(self) -> str:
        """Shown in beat's banner."""
        return f"    . system entries -> {len(self.entries)}; users' jobs are in the store"


def run_celery_beat(app: Celery) -> None:
    """Run Celery's beat with our scheduler class until SIGTERM or SIGINT."""
    Beat(
        app=app, scheduler_cls=HermesScheduler, loglevel="WARNING", quiet=True, max_interval=TICK_S, schedule=None
    ).run()
