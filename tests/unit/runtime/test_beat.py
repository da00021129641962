"""One tick of the scheduler: due fires, then system entries, each claimed before it is rung."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.errors import HermesTasksError, StoreFull, StoreUnavailable
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.runtime.app import make_app
from hermes_tasks.runtime.beat import TICK_S, HermesScheduler, SystemEntry
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.testing.bell import RecordingBell

HOURLY = SystemEntry("reindex", 3600, "reindex", Queue.CURATOR)
DAILY = SystemEntry("sweep", 86_400, "sweep", Queue.CURATOR)


class HandClock:
    moment = datetime(2030, 1, 31, 9, 59, 59, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0


class Records:
    """What two schedulers share: claimed slots, and a store that may be away."""

    def __init__(self) -> None:
        self.claimed: dict[tuple[str, int], int] = {}
        self.asked = 0
        self.looked = 0
        self.away: Exception | None = None

    async def fire_due(self) -> int:
        self.looked += 1
        if self.away is not None:
            raise self.away
        return 0

    async def claim_slot(self, entry: str, slot: int, keep_s: int) -> bool:
        self.asked += 1
        if (entry, slot) in self.claimed:
            return False
        self.claimed[entry, slot] = keep_s
        return True


@pytest.fixture
def bridge() -> Iterator[LoopBridge]:
    made = LoopBridge()
    made.start()
    yield made
    made.stop()


class Beats:
    """Schedulers of several processes: each a class of its own, as in a process of its own."""

    def __init__(self, bridge: LoopBridge) -> None:
        self.records, self.bell, self.clock, self._bridge = Records(), RecordingBell(), HandClock(), bridge

    def one(self, *entries: SystemEntry) -> HermesScheduler:
        class Own(HermesScheduler):
            clock = self.clock

        Own.compose(self._bridge, self.records.fire_due, self.records.claim_slot, entries, self.bell)
        return Own(app=make_app("memory://"))


@pytest.fixture
def beats(bridge: LoopBridge) -> Beats:
    return Beats(bridge)


def test_each_tick_looks_once_and_comes_again_soon(beats: Beats) -> None:
    scheduler = beats.one()
    assert [scheduler.tick(), scheduler.tick()] == [TICK_S, TICK_S]
    assert beats.records.looked == 2
    assert TICK_S <= 1
    assert beats.bell.rings == []


def test_a_system_entry_is_rung_once_by_two_schedulers(beats: Beats) -> None:
    first, second = beats.one(HOURLY, DAILY), beats.one(HOURLY, DAILY)
    for _ in range(3):
        first.tick()
        second.tick()
    assert beats.bell.take() == [Ring(Queue.CURATOR, "reindex", ()), Ring(Queue.CURATOR, "sweep", ())]
    assert beats.records.asked == 4, "a slot that is known is not asked for again"
    beats.clock.moment += timedelta(seconds=1)
    second.tick()
    first.tick()
    assert beats.bell.take() == [Ring(Queue.CURATOR, "reindex", ())], "the next hour, not the next day"


def test_a_claim_outlives_its_slot(beats: Beats) -> None:
    beats.one(HOURLY, DAILY, SystemEntry("often", 10, "often", Queue.CURATOR)).tick()
    assert sorted(beats.records.claimed.values()) == [3600, 7200, 172_800]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreFull("full"), ConnectionError("refused")])
def test_a_store_that_is_away_costs_one_look_only(beats: Beats, error: HermesTasksError | OSError) -> None:
    scheduler = beats.one(HOURLY)
    beats.records.away = error
    with capture_logs() as lines:
        assert scheduler.tick() == TICK_S
    assert str(error) in lines[-1]["reason"]
    assert beats.bell.rings == []
    beats.records.away = None
    scheduler.tick()
    assert len(beats.bell.take()) == 1


def test_a_fault_of_ours_is_not_hidden(beats: Beats) -> None:
    scheduler = beats.one()
    beats.records.away = KeyError("a bug")
    with pytest.raises(KeyError, match="a bug"):
        scheduler.tick()


def test_celery_keeps_no_schedule_of_its_own(beats: Beats) -> None:
    scheduler = beats.one(HOURLY)
    assert scheduler.schedule == {}
    assert "system entries -> 1" in scheduler.info
