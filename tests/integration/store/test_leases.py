"""The sole right to advance a record: who has it, how it is kept, and that nobody else writes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.store.channel import Draining
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.memory import DocumentState
from hermes_tasks.store.renewer import Lease, Renewer
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import (
    ANSWER,
    CONFIG,
    DONE,
    QUICK,
    USER,
    World,
    documents,
    guard_of,
    new_run,
    started,
    tool_step,
    worlds,
)

pytestmark = pytest.mark.anyio


@dataclass
class Holder:
    """One holder of a turn's run that has a step and a batch at work, and of that session's cursor."""

    world: World
    journal: StoreJournal
    draining: Draining

    async def append(self) -> None:
        await self.journal.append(tool_step("late"))

    async def finish(self) -> None:
        await self.journal.finish(DONE)

    async def suspend(self) -> None:
        await self.journal.suspend()

    async def emit(self) -> None:
        await self.journal.emit([("text", {"text": "late"})])

    async def pin(self) -> None:
        await self.journal.pin("late", "late")

    async def batch_create(self) -> None:
        children = [new_run(run="late.0", parent=self.journal.record.id, batch="late")]
        await self.world.runs.create_batch(guard_of(self.journal), started("late"), "late", 0, children)

    async def doc_write(self) -> None:
        state = await self.world.memory.document(USER, Document.USER)
        await self.world.memory.write(
            USER, Document.USER, state, ("late",), guard=guard_of(self.journal), step=tool_step("late")
        )

    async def channel_apply(self) -> None:
        await self.world.channel.apply(self.draining, documents(self.draining), 8)


WRITES: list[Callable[[Holder], Awaitable[None]]] = [
    Holder.append, Holder.finish, Holder.suspend, Holder.emit, Holder.pin, Holder.batch_create, Holder.doc_write,
    Holder.channel_apply,
]  # fmt: skip
OF_THE_RUN = [write for write in WRITES if write is not Holder.channel_apply]


@pytest.fixture
async def holder(world: World) -> Holder:
    session = await world.session()
    await world.turn(session, "before")
    journal = await world.hold(await world.say(session))
    await journal.append(ANSWER.model_copy(update={"text": " "}))
    await world.batch(journal, 2)
    await world.memory.write(USER, Document.USER, DocumentState(0, ()), ("likes tea",))
    return Holder(world, journal, await world.drain(session))


@pytest.mark.parametrize("write", WRITES)
async def test_a_holder_that_wakes_after_its_takeover_writes_nothing(
    holder: Holder, write: Callable[[Holder], Awaitable[None]]
) -> None:
    world = holder.world
    await world.take_over(holder.journal)
    await world.take_over(holder.draining)
    before = await world.snapshot()
    with pytest.raises(LeaseLost):
        await write(holder)
    assert await world.snapshot() == before, "put back, and not yet taken by the next"
    await world.hold(holder.journal.record.id)
    await world.drain("s1")
    before = await world.snapshot()
    with pytest.raises(LeaseLost):
        await write(holder)
    assert await world.snapshot() == before, "while the next one holds it"
    assert not world.renewer.holds(holder.draining.lease if write is Holder.channel_apply else holder.journal.lease)


async def test_giving_back_what_was_taken_over_does_nothing(holder: Holder) -> None:
    world = holder.world
    await world.take_over(holder.journal)
    await world.hold(holder.journal.record.id)
    before = await world.snapshot()
    await holder.journal.release()
    assert await world.snapshot() == before


@pytest.mark.parametrize("write", OF_THE_RUN)
async def test_a_holder_whose_run_was_cancelled_writes_nothing(
    holder: Holder, write: Callable[[Holder], Awaitable[None]]
) -> None:
    world = holder.world
    await world.runs.cancel(USER, holder.journal.record.id)
    before = await world.snapshot()
    with pytest.raises(RunCancelled):
        await write(holder)
    assert await world.snapshot() == before


@pytest.mark.parametrize("write", WRITES)
async def test_nothing_is_written_for_an_erased_user(
    holder: Holder, write: Callable[[Holder], Awaitable[None]]
) -> None:
    world = holder.world
    await world.on("HSET", "user", "state", "erased")
    before = await world.snapshot()
    with pytest.raises(LeaseLost):
        await write(holder)
    assert await world.snapshot() == before
    assert await renewed(world, holder.journal.lease, holder.draining.lease) == ["lost", "lost"]
    assert await world.snapshot() == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_lease_that_ran_out_and_that_nobody_took_is_still_good(
    holder: Holder, write: Callable[[Holder], Awaitable[None]]
) -> None:
    await holder.world.expire(holder.journal)
    await holder.world.expire(holder.draining)
    await write(holder)


async def renewed(world: World, *leases: Lease) -> list[str]:
    flat = [word for lease in leases for word in (lease.kind, lease.id, lease.fence, lease.holder)]
    answer = await world.script("leases_renew", *flat)
    states: list[str] = answer["states"]
    return states


async def test_renewing_prolongs_both_kinds_even_after_they_ran_out(holder: Holder) -> None:
    world, leases = holder.world, (holder.journal.lease, holder.draining.lease)
    await world.expire(holder.journal)
    await world.expire(holder.draining)
    asked = await world.now()
    assert await renewed(world, *leases) == ["ok", "ok"]
    for lease in leases:
        member = f"{lease.kind}:{lease.id}"
        assert int(await world.on("HGET", member, "lease_until")) >= asked + CONFIG.lease_ms
        assert (await world.due())[member] >= asked + CONFIG.lease_ms


async def test_only_the_holder_can_renew(holder: Holder) -> None:
    world, lease = holder.world, holder.journal.lease
    before = await world.snapshot()
    others = [
        Lease("run", USER, lease.id, lease.fence + 1, lease.holder),
        Lease("run", USER, lease.id, lease.fence, "somebody"),
        Lease("run", USER, "nobody", 1, lease.holder),
        Lease("cur", USER, "s1|builtin", 9, holder.draining.lease.holder),
        Lease("cur", USER, "nobody", 1, ""),
    ]
    assert await renewed(world, *others) == ["lost"] * len(others)
    assert await world.snapshot() == before
    await world.runs.cancel(USER, lease.id)
    assert await renewed(world, lease) == ["ended"]


async def test_a_sweeper_takes_over_only_what_ran_out_and_only_when_it_may(holder: Holder) -> None:
    world, run = holder.world, holder.journal.record.id
    for lease in (holder.journal.lease, holder.draining.lease):
        await world.make_due(f"{lease.kind}:{lease.id}")
    assert (await world.look())["takeovers"] == 0, "both are live"
    await world.expire(holder.journal)
    await world.expire(holder.draining)
    world.bell.take()
    assert (await world.look(takeovers=False))["takeovers"] == 0
    assert (await world.state(run), world.bell.take()) == (RunState.RUNNING, [])
    assert await world.runs.claim(USER, run) is None
    for lease in (holder.journal.lease, holder.draining.lease):
        await world.make_due(f"{lease.kind}:{lease.id}")
    assert (await world.look())["takeovers"] == 2
    assert await world.state(run) is RunState.QUEUED
    assert sorted(ring.task for ring in world.bell.take()) == ["drain", "turn"]
    assert (await world.hold(run)).attempt == 2


async def test_a_lease_from_a_clock_that_ran_ahead_counts_as_expired(holder: Holder) -> None:
    world = holder.world
    far = await world.now() + 2 * CONFIG.lease_ms + 60_000
    await world.on("HSET", f"run:{holder.journal.record.id}", "lease_until", far)
    await world.make_due(f"run:{holder.journal.record.id}")
    assert (await world.look())["takeovers"] == 1


# -- the thread that renews ------------------------------------------------------------------------------------------


async def test_a_lease_outlives_its_length_while_its_process_lives_and_no_longer(store_url: str) -> None:
    async with worlds(store_url, QUICK, QUICK) as [one, two]:
        one.renewer.start()
        journal = await one.held()
        run = journal.record.id
        sweeping = asyncio.create_task(two.recovery.run())
        try:
            await one.wait_until(await one.now() + 4 * QUICK.lease_ms)
            await journal.append(ANSWER)
            one.renewer.stop()
            await eventually(lambda: two.bell.ids("child") == [run], 5)
            assert (await two.hold(run)).attempt == 2
        finally:
            sweeping.cancel()


async def test_a_holder_is_told_when_it_lost_its_lease(quick: World) -> None:
    told: list[LeaseLost | RunCancelled] = []
    quick.renewer.start()
    run = await quick.create()
    journal = await quick.runs.claim(USER, run, told.append)
    assert journal is not None
    await quick.on("HSET", f"run:{run}", "holder", "somebody")
    await eventually(lambda: told)
    assert [type(error) for error in told] == [LeaseLost]
    with pytest.raises(LeaseLost):
        await journal.ready()


async def test_a_holder_is_told_when_its_run_was_cancelled(quick: World) -> None:
    told: list[LeaseLost | RunCancelled] = []
    quick.renewer.start()
    run = await quick.create()
    journal = await quick.runs.claim(USER, run, told.append)
    assert journal is not None
    await quick.runs.cancel(USER, run)
    await eventually(lambda: told)
    assert [type(error) for error in told] == [RunCancelled]
    with pytest.raises(RunCancelled):
        await journal.ready()


class SlowBell:
    """A bell that publishes when the test lets it."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    async def ring(self, rings: object) -> None:
        await self.let.wait()


@pytest.mark.parametrize("leave", ["finish", "suspend", "release"])
async def test_a_holder_that_leaves_by_itself_is_not_told_that_it_lost_anything(quick: World, leave: str) -> None:
    """The renewer meets a record that its own holder just left: that is no loss, and must not cut its bells off."""
    told: list[LeaseLost | RunCancelled] = []
    quick.renewer.start()
    run = await quick.create()
    journal = await quick.runs.claim(USER, run, told.append)
    assert journal is not None
    await quick.batch(journal, 1)
    bell = journal._bell = SlowBell()
    leaving = asyncio.create_task({"finish": lambda: journal.finish(DONE), "suspend": journal.suspend,
                                   "release": journal.release}[leave]())  # fmt: skip

    async def left() -> bool:
        return await quick.state(run) is not RunState.RUNNING

    await eventually(left)
    await eventually(lambda: not quick.renewer.holds(journal.lease))
    bell.let.set()
    await leaving
    assert told == []


async def test_nothing_begins_while_the_last_renewal_is_too_old(quick: World, store_server: EmbeddedServer) -> None:
    quick.renewer.start()
    journal = await quick.held()
    await journal.ready()
    store_server.freeze()
    await eventually(lambda: not quick.renewer.holds(journal.lease) or _age(journal) > QUICK.fresh_ms / 1000)
    waiting = asyncio.create_task(journal.ready())
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert done == set()
    store_server.thaw()
    await asyncio.wait_for(waiting, 5)
    assert _age(journal) < QUICK.fresh_ms / 1000


def _age(journal: StoreJournal) -> float:
    return time.monotonic() - journal.lease.renewed


async def test_a_loop_that_does_not_move_loses_its_leases_and_is_reported(store_url: str) -> None:
    async with worlds(store_url, QUICK) as [world]:
        reported, renewals = threading.Event(), list[float]()

        def report(seconds: float) -> None:
            assert seconds > 0.3
            renewals.append(journal.lease.renewed)
            if len(renewals) == 3:
                reported.set()

        renewer = Renewer(store_url, QUICK, on_stuck=report, stuck_s=0.3)
        world.runs._renewer = renewer
        journal = await world.held()
        renewer.start()
        try:
            assert reported.wait(10), "the loop is blocked here: only the other thread can end this"
            assert len(set(renewals)) == 1, "nothing was renewed any more"
        finally:
            renewer.stop()


async def test_a_process_that_was_composed_long_ago_is_not_stuck_when_it_starts(store_url: str) -> None:
    stuck = threading.Event()
    renewer = Renewer(store_url, QUICK, on_stuck=lambda _: stuck.set(), stuck_s=10)
    renewer._beat -= 60
    renewer.start()
    try:
        before = renewer._beat
        await eventually(lambda: renewer._beat > before)
        assert not stuck.is_set()
    finally:
        renewer.stop()


async def test_leases_survive_a_store_that_is_away_for_less_than_their_length(
    world: World, store_server: EmbeddedServer
) -> None:
    journal = await world.held()
    world.renewer.start()
    store_server.freeze()
    asking = asyncio.create_task(journal.append(ANSWER))
    done, _ = await asyncio.wait({asking}, timeout=0.3)
    store_server.thaw()
    await asyncio.wait_for(asking, 10)
    assert done == set()
    assert await world.runs.steps(USER, journal.record.id) == [ANSWER]
