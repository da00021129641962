"""The bell of tests that execute what is rung."""

from __future__ import annotations

import asyncio

import pytest

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.testing.local_bell import LocalBell
from tests.unit.runtime.test_tasks import Heard

pytestmark = pytest.mark.anyio

TURN = Ring(Queue.TURNS, "turn", ("ann", "r1"))
DRAIN = Ring(Queue.MEMORY, "drain", ("ann", "s1", "builtin"))
DELIVER = Ring(Queue.DELIVERY, "deliver", ("ann", "d1"))
REINDEX = Ring(Queue.CURATOR, "reindex", ())


async def test_doorbells_reach_the_worker_beside_the_caller() -> None:
    bell, work = LocalBell(), Heard()
    bell.serve(work)
    await bell.ring([TURN, DRAIN, DELIVER, REINDEX])
    assert work.calls == [], "the caller goes on first"
    await bell.settled()
    assert work.calls == [
        ("advance", "ann", "r1"), ("drain", "ann", "s1", "builtin"), ("deliver", "ann", "d1"), ("reindex",),
    ]  # fmt: skip
    assert bell.rings == []
    assert len(bell.rung) == 4


async def test_what_is_kept_waits_for_the_test() -> None:
    bell, work = LocalBell(keeps=["turn"]), Heard()
    bell.serve(work)
    await bell.ring([TURN, DRAIN])
    await bell.settled()
    assert (bell.rings, len(work.calls)) == ([TURN], 1)
    assert (bell.deliver("drain"), bell.deliver()) == (0, 1)
    await bell.settled()
    assert len(work.calls) == 2


async def test_without_a_worker_and_after_its_end_doorbells_are_only_remembered() -> None:
    bell, work = LocalBell(), Heard()
    await bell.ring([TURN])
    bell.serve(work)
    bell.close()
    await bell.ring([DRAIN])
    await bell.settled()
    assert (bell.rings, work.calls) == ([TURN, DRAIN], [])


async def test_workers_take_turns_and_their_faults_are_kept() -> None:
    class Failing(Heard):
        async def advance(self, user: str, run: str) -> None:
            raise KeyError(run)

    bell, work = LocalBell(), Heard()
    bell.serve(work, Failing())
    await bell.ring([TURN, TURN, TURN])
    await bell.settled()
    assert len(work.calls) == 2
    assert [type(fault) for fault in bell.faults] == [KeyError]


async def test_settling_says_that_something_is_still_at_work() -> None:
    class Hanging(Heard):
        async def advance(self, user: str, run: str) -> None:
            await asyncio.Event().wait()

    bell = LocalBell()
    bell.serve(Hanging())
    await bell.ring([TURN])
    with pytest.raises(AssertionError, match="all doorbells answered"):
        await bell.settled(0.05)
