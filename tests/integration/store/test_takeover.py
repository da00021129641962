"""Recovery: who takes over what, how often, how fast, and what it must not do."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.clock import SystemClock
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.store import hints
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import shard_key, user_key
from hermes_tasks.store.recovery import Recovery
from hermes_tasks.store.runs import Runs
from hermes_tasks.testing.bell import RecordingBell
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import (
    ANSWER,
    CONFIG,
    DONE,
    QUICK,
    USER,
    World,
    calls_step,
    new_run,
    tool_step,
    worlds,
)

pytestmark = pytest.mark.anyio


async def die(world: World, run: str, times: int = 1, *, progress: bool = False) -> None:
    """Processes claim the run and die with it; its backoff is over each time."""
    for _ in range(times):
        await world.on("HSET", f"run:{run}", "not_before", 0)
        journal = await world.hold(run)
        if progress:
            await journal.append(tool_step())
        await world.take_over(journal)


async def test_only_a_takeover_without_a_step_counts(world: World) -> None:
    run = await world.create()
    await die(world, run, 2)
    assert await world.field(run, "attempts") == "2"
    await die(world, run, progress=True)
    assert await world.field(run, "attempts") == "0"
    await die(world, run)
    assert (await world.field(run, "attempts"), await world.field(run, "takeovers")) == ("1", "4")


async def test_a_wait_for_children_is_progress(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    run = parent.record.id
    await world.take_over(parent)
    parent = await world.hold(run)
    [child] = await world.batch(parent, 1)
    assert await parent.suspend()
    await world.end(child)
    assert await world.field(run, "attempts") == "0"


async def test_from_the_second_death_on_the_run_waits_before_it_is_tried_again(world: World) -> None:
    run = await world.create()
    for death, wait in ((1, 0), (2, 1000), (3, 2000)):
        world.bell.take()
        await world.on("HSET", f"run:{run}", "rung", 7)
        before = await world.now()
        await die(world, run)
        if not wait:
            assert world.bell.ids("child") == [run]
            assert await world.field(run, "not_before") <= str(before + 200)
            continue
        assert world.bell.take() == [], f"death {death}"
        until = int(await world.field(run, "not_before"))
        assert before + wait <= until <= await world.now() + wait
        assert (await world.due())[f"run:{run}"] == until
        assert await world.runs.claim(USER, run) is None
        assert await world.field(run, "rung") == "0", "lost bells are counted anew"


async def test_it_is_rung_when_its_backoff_is_over(quick: World) -> None:
    run = await quick.create()
    await die(quick, run, 2)
    quick.bell.take()
    sweeping = asyncio.create_task(quick.recovery.run())
    try:
        await eventually(lambda: quick.bell.ids("child")[-1:] == [run])
        assert await quick.now() >= int(await quick.field(run, "not_before"))
    finally:
        sweeping.cancel()


async def test_after_the_fourth_process_it_is_lost(world: World) -> None:
    parent, [one, other] = await world.waiting_parent(2)
    await world.end(other)
    await die(world, one, CONFIG.max_attempts)
    record = await world.runs.get(USER, one)
    assert (record.state, record.exit_reason) == (RunState.LOST, ExitReason.MAX_ATTEMPTS)
    assert record.result["error"] == "given up after 4 processes died while running it"
    assert await world.runs.claim(USER, one) is None
    assert await world.state(parent.record.id) is RunState.QUEUED, "its batch is joined"
    assert f"run:{one}" not in await world.due()
    assert one not in await world.on("SMEMBERS", "win:child")


async def test_an_answer_that_was_stored_is_not_lost_with_the_processes(world: World) -> None:
    run = await world.create()
    journal = await world.hold(run)
    await journal.append(ANSWER)
    await world.take_over(journal)
    await die(world, run, CONFIG.max_attempts)
    record = await world.runs.get(USER, run)
    assert (record.state, record.result["text"]) == (RunState.COMPLETED, ANSWER.text)


async def test_the_steps_of_the_dead_are_handed_to_the_next(world: World) -> None:
    journal = await world.held()
    await journal.append(calls_step())
    await world.take_over(journal)
    assert list((await world.hold(journal.record.id)).steps) == [calls_step()]


# -- suspects --------------------------------------------------------------------------------------------------------


async def suspects(world: World, count: int) -> list[str]:
    runs = [await world.create() for _ in range(count)]
    for run in runs:
        await die(world, run, 2)
        await world.on("HSET", f"run:{run}", "not_before", 0)
    return runs


async def test_a_process_holds_one_suspect_at_a_time(world: World) -> None:
    one, two, three = await suspects(world, 3)
    first = await world.hold(one)
    assert await world.runs.claim(USER, two) is None
    assert (await world.due())[f"run:{two}"] >= await world.now() + CONFIG.lease_ms - 500, "it is rung for others"
    assert await Runs(world.store, world.bell, world.renewer).claim(USER, two) is not None, "another process may"
    await first.append(tool_step())
    assert await world.runs.claim(USER, three) is not None, "the first one got on, so it is innocent"


async def test_a_suspect_that_ended_makes_room(world: World) -> None:
    one, two = await suspects(world, 2)
    await world.end(one)
    assert await world.runs.claim(USER, two) is not None


async def test_of_suspects_claimed_at_once_a_process_gets_one(world: World, store_server: EmbeddedServer) -> None:
    runs = await suspects(world, 4)
    await asyncio.gather(*(world.now() for _ in runs))  # a connection each
    store_server.freeze()
    asking = [asyncio.create_task(world.runs.claim(USER, run)) for run in runs]
    await asyncio.wait(asking, timeout=0.05)
    store_server.thaw()  # all answers come together
    assert sum(claim is not None for claim in await asyncio.gather(*asking)) == 1


async def test_innocent_runs_are_claimed_beside_a_suspect(world: World) -> None:
    [one] = await suspects(world, 1)
    await world.hold(one)
    assert await world.runs.claim(USER, await world.create()) is not None


# -- doorbells -------------------------------------------------------------------------------------------------------


async def test_a_lost_doorbell_is_rung_again_ever_more_rarely(world: World) -> None:
    run = await world.create()
    pauses = []
    for _ in range(6):
        world.bell.take()
        await world.make_due(f"run:{run}")
        answer = await world.look()
        assert world.bell.ids("child") == [run]
        pauses.append(round(((await world.due())[f"run:{run}"] - answer["now"]) / 1000))
    assert pauses == [5, 10, 20, 40, 60, 60]
    await world.hold(run)
    await world.make_due(f"run:{run}")
    await world.look()
    assert world.bell.take() == [], "it is held"


async def test_what_is_due_for_nothing_is_forgotten(world: World) -> None:
    done, backlog = await world.create(), [await world.create() for _ in range(8)][-1]
    await world.runs.cancel(USER, done)
    await world.runs.cancel(USER, backlog)
    waiting, _ = await world.waiting_parent()
    world.bell.take()
    for member in (f"run:{done}", f"end:{done}", "run:nobody", "end:nobody", "out:nobody", "cur:nobody", "cur:no|body",
                   "odd:x", "odd", f"run:{waiting.record.id}"):  # fmt: skip
        await world.make_due(member)
    left = set(await world.due())
    assert (await world.look())["takeovers"] == 0
    assert world.bell.take() == []
    assert {member.partition(":")[0] for member in left - set(await world.due())} == {"run", "end", "out", "cur", "odd"}
    assert "cur:nobody" not in await world.due()


async def test_a_parent_that_waits_for_nothing_is_woken(world: World) -> None:
    parent, _ = await world.waiting_parent()
    run = parent.record.id
    world.bell.take()
    await world.on("HSET", f"run:{run}", "pending", 0)
    await world.make_due(f"run:{run}")
    await world.look()
    assert world.bell.ids("curation") == [run]
    await world.hold(run)


# -- the sweeper -----------------------------------------------------------------------------------------------------


async def test_a_sweeper_waits_one_lease_before_it_takes_anything(quick: World) -> None:
    journal = await quick.held()
    await quick.expire(journal)
    quick.bell.take()
    began = await quick.now()
    await quick.recovery.sweep()
    assert await quick.state(journal.record.id) is RunState.RUNNING
    sweeping = asyncio.create_task(quick.recovery.run())
    try:
        await eventually(lambda: quick.bell.ids("child") == [journal.record.id])
        assert await quick.now() - began >= QUICK.lease_ms
    finally:
        sweeping.cancel()


@pytest.mark.parametrize(("gap_ms", "state"), [(0, RunState.QUEUED), (CONFIG.lease_ms, RunState.RUNNING)])
async def test_after_a_gap_of_its_own_a_sweeper_waits_again(world: World, gap_ms: int, state: RunState) -> None:
    sweeper = Recovery(world.store, world.bell)
    await sweeper.sweep()
    sweeper._calm_from = 0
    assert sweeper._last is not None
    sweeper._last -= gap_ms / 1000
    journal = await world.held()
    await world.expire(journal)
    await eventually(lambda: _swept(sweeper))
    assert await world.state(journal.record.id) is state


async def _swept(sweeper: Recovery) -> bool:
    """Another sweeper may hold the shard's lock for some ms."""
    return await sweeper.sweep() > 0


async def test_what_a_frozen_store_holds_up_is_not_taken_over(quick: World, store_server: EmbeddedServer) -> None:
    """Everybody stood still, the sweeper in the middle of its sweep too: whoever lives renews first."""
    quick.renewer.start()
    told: list[int] = []
    sweeper = Recovery(quick.store, quick.bell, on_takeover=told.append)
    journals = [await quick.held() for _ in range(8)]
    sweeping = asyncio.create_task(sweeper.run())
    try:
        for _ in range(2):
            await eventually(sweeper._calm)
            thawed = await quick.now() + 2 * QUICK.lease_ms
            store_server.freeze()
            await asyncio.to_thread(_until, quick.store, thawed)
            store_server.thaw()
            for journal in journals:
                await journal.append(tool_step())
        assert told == []
    finally:
        sweeping.cancel()


def _until(store: Store, moment_ms: int) -> None:
    """The server cannot be asked for its time now; ours goes on beside it."""
    left = threading.Event()
    while (remaining := moment_ms - store.now_ms()) > 0:
        left.wait(remaining / 1000)


async def test_a_look_that_was_held_up_takes_nothing_over(world: World) -> None:
    journal = await world.held()
    await world.expire(journal)
    before = await world.now() - CONFIG.lease_ms // 2 - 1
    assert (await world.script("due", before, 200))["takeovers"] == 0
    await world.expire(journal)
    assert (await world.script("due", await world.now(), 200))["takeovers"] == 1


async def test_after_a_restart_of_the_store_a_sweeper_waits_again(world: World, store_server: EmbeddedServer) -> None:
    sweeper = Recovery(world.store, world.bell)
    await sweeper.sweep()
    sweeper._calm_from = 0
    assert sweeper._calm()
    await world.written()
    store_server.kill()
    store_server.start()
    journal = await world.held()
    await world.expire(journal)
    await world.runs.cancel(USER, await world.create())  # a hint that is due
    await eventually(lambda: _swept(sweeper))
    assert await world.state(journal.record.id) is RunState.RUNNING


async def test_a_sweeper_tells_how_much_it_took_over_and_moves_the_hint(world: World) -> None:
    told: list[int] = []
    sweeper = Recovery(world.store, world.bell, on_takeover=told.append)
    journals = [await world.held() for _ in range(3)]
    await sweeper.sweep()
    sweeper._calm_from = 0
    for journal in journals:
        await world.expire(journal)
    assert await sweeper.sweep() == 1
    assert told == [3]
    assert await world.hint() == min((await world.due()).values())


class StandingStill(RecordingBell):
    """A bell at which the sweeper's process is frozen for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.freeze = lambda: None

    async def ring(self, rings: Sequence[Ring]) -> None:
        self.freeze()
        await super().ring(rings)


async def test_a_sweeper_that_stood_still_in_the_middle_takes_over_nothing_more(world: World) -> None:
    told: list[int] = []
    bell = StandingStill()
    sweeper = Recovery(world.store, bell, on_takeover=told.append)
    users = [USER, "bob", "cid"]
    await world.users.add("bob")
    await world.users.add("cid")
    await sweeper.sweep()
    sweeper._calm_from = 0
    for user in users:
        run = new_run(user=user)
        await world.runs.create(run)
        assert await world.runs.claim(user, run.id)
        await world.command("HSET", user_key(user, f"run:{run.id}"), "lease_until", 1)
        await world.command("ZADD", user_key(user, "due"), 1, f"run:{run.id}")
        await world.store.read(hints.put_at(shard_key(user), user, 1))

    def freeze() -> None:
        assert sweeper._last is not None
        sweeper._last -= CONFIG.lease_ms / 1000

    bell.freeze = freeze
    assert await sweeper.sweep() == len(users)
    assert told == [1], "the holders of the others were frozen as well, for all it knows"


async def test_two_sweepers_share_the_work(world: World) -> None:
    for name in ("bob", "cid", "dan"):
        await world.users.add(name)
    sweepers = [Recovery(world.store, world.bell) for _ in range(2)]
    await world.runs.cancel(USER, await world.create())
    looked = await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))
    assert sum(looked) == 1


async def test_one_damaged_record_does_not_keep_the_others_waiting(world: World) -> None:
    await world.users.add("bob")
    broken, sound = [await world.create() for _ in range(2)]
    await world.on("HDEL", f"run:{broken}", "deadline_s")
    await world.on("HSET", f"run:{broken}", "started", 1)
    await world.on("RPUSH", f"steps:{broken}", "no json")
    world.bell.take()
    await world.make_due(f"end:{broken}")
    await world.make_due(f"run:{sound}")
    answer = await world.look()
    assert [member for member, _ in answer["faults"]] == [f"end:{broken}"]
    assert world.bell.ids("child") == [sound]
    assert (await world.due())[f"end:{broken}"] > answer["now"] + 50_000, "it is looked at again, but not at once"
    await world.make_due(f"end:{broken}")
    assert await world.recovery.sweep() == 1


async def test_an_erased_user_is_not_looked_at_for_ever(world: World) -> None:
    run = await world.create()
    await world.make_due(f"run:{run}")
    await world.on("HSET", "user", "state", "erased")
    world.bell.take()
    answer = await world.look()
    assert (answer["next"], world.bell.take()) == (0, [])


class LateClock(SystemClock):
    """A machine whose clock is two hours behind the store's."""

    def now(self) -> datetime:
        return super().now() - timedelta(hours=2)


async def test_a_machine_with_a_wrong_clock_sees_what_is_due(store_url: str) -> None:
    async with worlds(store_url, QUICK) as [world]:
        other = Store(store_url, QUICK, clock=LateClock())
        sweeper = Recovery(other, world.bell)
        run = await world.create()
        world.bell.take()
        await world.wait_until(await world.now() + QUICK.ring_ms)
        await eventually(lambda: _swept(sweeper))
        assert world.bell.ids("child") == [run]
        await other.aclose()


class EarlyClock(SystemClock):
    """A machine whose clock is two hours ahead of the store's."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=2)


async def test_what_a_machine_with_a_wrong_clock_announces_is_looked_at_in_time(world: World) -> None:
    other = Store(world.store.url, CONFIG, clock=EarlyClock())
    await Runs(other, world.bell).create(new_run())
    hint = await world.hint()
    assert hint is not None
    assert hint <= await world.now() + CONFIG.ring_ms
    await other.aclose()


async def test_reindex_finds_everything_that_is_due(world: World) -> None:
    run = await world.create()
    await world.users.add("bob")
    await world.jobs.add(USER, "j", "n", "p", {}, await world.now() + 60_000, 5)
    await world.command("DEL", *[f"ht:shard:{n}" for n in range(8)], *[f"ht:jobshard:{n}" for n in range(8)])
    assert await world.hint() is None
    assert await world.recovery.reindex() == 2
    hint = await world.hint()
    assert hint is not None
    assert hint <= min((await world.due()).values())
    assert await world.hint("bob") is None
    assert json.loads(await world.on("HGET", "job:j", "schedule")) == {}
    assert await world.state(run) is RunState.QUEUED
    await world.end(run, DONE)
