"""Admission as several processes share it: who is told, what a dead process leaves behind, rates, pauses, fallbacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from hermes_tasks.contracts.admission import Caller, Wait
from hermes_tasks.contracts.kinds import RunKind, RunState, WaitReason
from hermes_tasks.contracts.runs import Pause
from hermes_tasks.store.admission import StoreAdmission
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.keys import provider_key
from hermes_tasks.store.permits import Lane, Permits
from hermes_tasks.store.rates import Rates
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import CONFIG, USER, World, worlds

pytestmark = pytest.mark.anyio

TICK = timedelta(milliseconds=50)
NEVER = timedelta(hours=1)
ONE = {"default": Lane("e", "m", 1)}
FREE = {"default": Lane("e", "m")}


@asynccontextmanager
async def admission(
    world: World, lanes: dict[str, Lane], *, tick: timedelta = TICK, lease: timedelta = timedelta(seconds=10),
    **fallbacks: str,
) -> AsyncIterator[StoreAdmission]:  # fmt: skip
    permits = Permits(world.store, lease=lease)
    made = StoreAdmission(permits, Rates(world.store), world.runs, lanes, fallbacks, tick=tick)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
async def pair(store_url: str) -> AsyncIterator[list[World]]:
    """Two processes on one store."""
    async with worlds(store_url, CONFIG, CONFIG) as made:
        yield list(made)


def caller(run: str, *, turn: bool = False, tokens: int = 10, user: str = USER) -> Caller:
    return Caller(user, run, turn, tokens)


async def stored(world: World, wait: str | Wait | None, journal: StoreJournal) -> str:
    """The run pauses as the loop does it; returns its id."""
    assert isinstance(wait, Wait)
    await journal.pause(Pause(why=wait.why, detail="default", wait_s=wait.wait_s))
    return journal.record.id


async def queued(world: World, run: str) -> None:
    async def there() -> bool:
        return await world.state(run) is RunState.QUEUED

    await eventually(there, 5, f"run {run} to be woken")


async def test_a_freed_permit_wakes_the_run_that_is_next(world: World) -> None:
    async with admission(world, ONE) as door:
        assert await door.enter(caller("other"), "default") == "default"
        journal = await world.held()
        wait = await door.enter(caller(journal.record.id), "default")
        assert isinstance(wait, Wait)
        assert (wait.why, wait.least_s) == (WaitReason.PERMIT, 0)
        assert 2 < wait.wait_s < 9, "should nobody be left to wake it"
        run = await stored(world, wait, journal)
        world.bell.take()
        await door.leave(caller("other"))
        await queued(world, run)
        assert world.bell.ids("child") == [run]
        assert await door.enter(caller(run), "default") == "default"


async def test_the_permit_of_a_killed_process_wakes_a_run_of_another(pair: list[World]) -> None:
    lease = timedelta(milliseconds=300)
    async with admission(pair[0], ONE, lease=lease) as dead, admission(pair[1], ONE, lease=lease) as alive:
        assert await dead.enter(caller("other"), "default") == "default"
        journal = await pair[1].held()
        run = await stored(pair[1], await alive.enter(caller(journal.record.id), "default"), journal)
        began = await pair[1].now()
        await pair[1].wait_until(began + 500)  # longer than the lease: while the process lives, its place is renewed
        assert await pair[1].state(run) is RunState.WAITING
        await dead.aclose()
        await queued(pair[1], run)
        assert await pair[1].now() - began < 5000


async def test_who_was_granted_a_permit_is_told_by_another_when_the_teller_dies(pair: list[World]) -> None:
    async with admission(pair[0], ONE, tick=NEVER) as dying, admission(pair[1], ONE) as alive:
        await dying.enter(caller("other"), "default")
        journal = await pair[1].held()
        run = await stored(pair[1], await alive.enter(caller(journal.record.id), "default"), journal)
        await dying.aclose()  # its keeper is gone; what it grants now is told by nobody here
        await dying.leave(caller("other"))
        assert await pair[1].state(run) is RunState.WAITING
        await queued(pair[1], run)


async def test_a_run_that_is_granted_its_permit_before_its_pause_is_stored_is_told_afterwards(world: World) -> None:
    async with admission(world, ONE) as door:
        await door.enter(caller("other"), "default")
        journal = await world.held()
        wait = await door.enter(caller(journal.record.id), "default")
        await door.leave(caller("other"))
        await world.wait_until(await world.now() + 200)  # the keeper finds a run that does not wait yet
        await queued(world, await stored(world, wait, journal))


@pytest.mark.parametrize("end", ["cancelled", "held", "unknown"])
async def test_a_permit_for_a_run_that_does_not_want_it_any_more_goes_on(world: World, end: str) -> None:
    async with admission(world, ONE) as door:
        await door.enter(caller("other"), "default")
        first, second = await world.held(), await world.held()
        gone = "unknown" if end == "unknown" else first.record.id
        wait = await door.enter(caller(gone), "default")
        if end == "cancelled":
            await world.runs.cancel(USER, await stored(world, wait, first))
        if end == "held":
            await first.pause(Pause(why=WaitReason.BUDGET, wait_s=1000))
        run = await stored(world, await door.enter(caller(second.record.id), "default"), second)
        await door.leave(caller("other"))
        await queued(world, run)


async def test_a_turn_enters_while_the_children_of_another_user_wait(world: World) -> None:
    async with admission(world, {"default": Lane("e", "m", 4)}) as door:
        entered = [await door.enter(caller(f"c{n}"), "default") for n in range(30)]
        assert entered[:3] == ["default"] * 3
        assert all(isinstance(wait, Wait) for wait in entered[3:])
        assert await door.enter(caller("t", turn=True, user="bob"), "default") == "default"


async def test_without_limits_nothing_is_asked(world: World) -> None:
    async def evaluated() -> int:
        return int((await world.command("INFO", "commandstats")).get("cmdstat_evalsha", {}).get("calls", 0))

    async def looked() -> bool:
        return await evaluated() >= before + 2

    async with admission(world, FREE, tick=NEVER) as door:
        before = await evaluated()
        await door.enter(caller("first"), "default")
        await eventually(looked)  # the first call, which does not know yet, and the keeper's first look
        before = await evaluated()
        for number in range(20):
            assert await door.enter(caller(f"r{number}"), "default") == "default"
            await door.leave(caller(f"r{number}"))
        assert await evaluated() == before


async def test_a_refusal_pauses_every_process_and_the_line_moves_afterwards(pair: list[World]) -> None:
    async with admission(pair[0], FREE) as one, admission(pair[1], FREE) as two:
        for door in (one, two):
            assert await door.enter(caller("x"), "default") == "default"
        assert 1 < await one.limited("default", timedelta(seconds=2)) <= 2

        async def refused() -> Wait | None:
            entered = await two.enter(caller("y"), "default")
            return entered if isinstance(entered, Wait) else None

        wait = await eventually(refused)
        assert wait.why is WaitReason.RATE
        assert 0 < wait.least_s < wait.wait_s
        began = await pair[0].now()
        runs = []
        for door, world in ((one, pair[0]), (two, pair[1]), (one, pair[0])):
            journal = await world.held()
            runs.append(await stored(world, await door.enter(caller(journal.record.id), "default"), journal))
        for run in runs:  # one, then two more a second later
            await queued(pair[0], run)
            assert await one.enter(caller(run), "default") == "default"
        assert await pair[0].now() - began > 1500


async def test_a_refused_model_is_replaced_by_its_fallback_until_it_may_be_asked(world: World) -> None:
    lanes = {"default": Lane("e", "m"), "spare": Lane("f", "s", 2), "last": Lane("g", "l")}
    async with admission(world, lanes, tick=NEVER, default="spare", spare="last", last="default") as door:
        assert await door.enter(caller("a"), "default") == "default"
        await door.limited("default", timedelta(seconds=30))
        assert await door.enter(caller("b"), "default") == "spare", "one of its two places; the other is for turns"
        assert await door.enter(caller("c"), "default") == "last"
        await door.limited("last", timedelta(seconds=60))
        wait = await door.enter(caller("d"), "default")
        assert isinstance(wait, Wait)
        assert 20 < wait.least_s <= 30, "it waits for the model it is meant to ask"
        assert await world.command("ZCARD", provider_key("f").replace("state", "line:rest:s")) == 0
        await door.leave(caller("b"))
        assert await door.enter(caller("d"), "default") == "spare"


async def test_a_full_endpoint_is_waited_for_not_replaced(world: World) -> None:
    lanes = {"default": Lane("e", "m", 1), "spare": Lane("f", "s")}
    async with admission(world, lanes, default="spare") as door:
        await door.enter(caller("a"), "default")
        wait = await door.enter(caller("b"), "default")
        assert isinstance(wait, Wait)
        assert wait.why is WaitReason.PERMIT


async def test_a_fallback_has_its_own_permits_and_gives_them_back(world: World) -> None:
    lanes = {"default": Lane("e", "m", 1), "spare": Lane("f", "s", 1)}
    async with admission(world, lanes) as door:
        for run in "ab":
            assert await door.enter_fallback(caller(run), "spare") is None
            assert isinstance(await door.enter_fallback(caller("x"), "spare"), Wait)
            await door.leave(caller(run))


async def test_a_rate_makes_runs_wait_without_a_permit(world: World) -> None:
    async with admission(world, {"default": Lane("e", "m", 2, requests_per_minute=3)}) as door:
        for number in range(3):
            assert await door.enter(caller(f"r{number}", turn=True), "default") == "default"
            await door.leave(caller(f"r{number}", turn=True))
        wait = await door.enter(caller("late", turn=True), "default")
        assert isinstance(wait, Wait)
        assert wait.why is WaitReason.RATE
        assert 40 < wait.least_s <= 60
        await world.wait_until(await world.now() + 200)  # the keeper has looked
        assert await world.command("KEYS", provider_key("e").replace("state", "held:*")) == []
        again = await door.enter(caller("later", turn=True), "default")
        assert isinstance(again, Wait)


async def test_tokens_are_counted_and_a_call_larger_than_a_minute_passes_an_empty_one(world: World) -> None:
    rates, lane = Rates(world.store), Lane("e", "m", tokens_per_minute=1000)
    assert await rates.take(lane, 5000) is None
    wait = await rates.take(lane, 1)
    assert wait is not None
    other = Lane("e", "n", tokens_per_minute=1000, requests_per_minute=100)
    assert await rates.take(other, 600) is None
    assert await rates.allowed(other) == 0, "a usual call has 600"
    assert await rates.take(other, 300) is None
    assert await rates.take(other, 300) is not None


async def test_a_permit_is_given_back_or_runs_out_but_never_costs_the_answer(
    world: World, store_server: EmbeddedServer
) -> None:
    async with admission(world, ONE, tick=NEVER) as door:
        assert await door.enter(caller("a"), "default") == "default"
        store_server.freeze()
        async with asyncio.timeout(3):
            await door.leave(caller("a"))
        store_server.thaw()
        await door.leave(caller("a"))  # nothing is held here any more


async def test_a_model_that_is_not_configured_has_no_limits(world: World) -> None:
    async with admission(world, ONE) as door:
        assert await door.enter(caller("a"), "unheard-of") == "unheard-of"
        assert await door.enter_fallback(caller("a"), "unheard-of") is None
        await door.leave(caller("a"))
        assert isinstance(await world.held(RunKind.CRON), StoreJournal)
