"""Pauses: a run waits without a holder, a slot or a place in its window, until its moment or until it is woken."""

from __future__ import annotations

import pytest

from hermes_tasks.contracts.errors import LeaseLost, NotFound, RunCancelled
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState, WaitReason
from hermes_tasks.contracts.runs import Pause, RunRecord
from hermes_tasks.store.journal import StoreJournal
from tests.integration.store.world import ANSWER, DONE, USER, World, calls_step, guard_of, tool_step

pytestmark = pytest.mark.anyio

PERMIT = Pause(why=WaitReason.PERMIT, detail="default", wait_s=30, failures=2)
BUDGET = Pause(why=WaitReason.BUDGET, detail="tomorrow", wait_s=7200)


async def paused(world: World, pause: Pause = PERMIT, **more: object) -> StoreJournal:
    journal = await world.held(**more)
    await journal.pause(pause)
    return journal


async def record(world: World, run: str) -> RunRecord:
    return await world.runs.get(USER, run)


def pause_args(journal: StoreJournal, why: str = "permit") -> tuple[object, ...]:
    guard = guard_of(journal)
    return guard.run, guard.fence, guard.holder, guard.index, 30_000, why, "default", 2


async def test_a_paused_run_waits_and_says_for_what(world: World) -> None:
    journal = await paused(world)
    found = await record(world, journal.record.id)
    assert (found.state, found.why, found.detail, found.failures) == (RunState.WAITING, "permit", "default", 2)
    now = await world.now()
    assert 29_000 < found.wake - now <= 30_000
    assert now - 1000 < found.since <= now
    assert (await world.due())[f"run:{found.id}"] == found.wake
    await world.hinted()
    assert not world.renewer.holds(journal.lease)
    assert await world.runs.claim(USER, found.id) is None
    with pytest.raises(LeaseLost):
        await journal.append(tool_step())


async def test_a_second_call_changes_nothing(world: World) -> None:
    journal = await paused(world)
    before = await world.snapshot()
    assert await world.word("run_pause", *pause_args(journal)) == "ok"
    assert await world.snapshot() == before


@pytest.mark.parametrize("thief", [True, False])
async def test_a_stale_holder_pauses_nothing(world: World, thief: bool) -> None:
    journal = await world.held()
    await world.take_over(journal)
    other = await world.hold(journal.record.id) if thief else None
    with pytest.raises(LeaseLost):
        await journal.pause(PERMIT)
    assert await world.state(journal.record.id) is (RunState.RUNNING if thief else RunState.QUEUED)
    if other is not None:
        await other.append(tool_step())


async def test_an_ended_run_is_not_paused(world: World) -> None:
    journal = await world.held()
    await world.runs.cancel(USER, journal.record.id)
    with pytest.raises(RunCancelled):
        await journal.pause(PERMIT)
    assert await world.state(journal.record.id) is RunState.CANCELLED


async def test_a_store_that_forgot_steps_pauses_nothing(world: World) -> None:
    journal = await world.held()
    await journal.append(tool_step())
    await world.on("RPOP", f"steps:{journal.record.id}")
    await world.on("HSET", f"run:{journal.record.id}", "steps", 0)
    with pytest.raises(LeaseLost, match="came back without steps"):
        await journal.pause(PERMIT)
    assert await world.state(journal.record.id) is RunState.QUEUED


async def test_its_window_place_goes_to_the_next_and_is_asked_for_first_when_it_returns(world: World) -> None:
    first = await world.held()
    others = [await world.create() for _ in range(9)]  # the window has eight places
    world.bell.take()
    await first.pause(PERMIT)
    assert world.bell.ids("child") == [others[7]]
    assert await world.runs.wake(USER, first.record.id, WaitReason.PERMIT)
    assert await world.runs.claim(USER, first.record.id) is None, "the window is full"
    world.bell.take()
    await world.end(others[0])
    assert world.bell.ids("child") == [first.record.id], "before what never ran"
    assert (await world.hold(first.record.id)).record.failures == 2


async def test_its_time_comes(world: World) -> None:
    journal = await paused(world)
    run = journal.record.id
    await world.look()
    assert await world.state(run) is RunState.WAITING
    assert (await world.due())[f"run:{run}"] == (await record(world, run)).wake
    world.bell.take()
    await world.on("HSET", f"run:{run}", "wake", await world.now() - 1)
    await world.make_due(f"run:{run}")
    await world.look()
    assert world.bell.ids("child") == [run]
    again = await world.hold(run)
    assert (again.record.wake, again.record.takeovers, again.record.attempts) == (0, 0, 0)
    await again.append(ANSWER)
    assert (await record(world, run)).failures == 0, "an answer ends the row of failures"


async def test_a_bell_that_was_lost_is_rung_again(quick: World) -> None:
    journal = await paused(quick)
    run = journal.record.id
    assert await quick.runs.wake(USER, run, WaitReason.PERMIT)
    quick.bell.take()  # nobody heard it
    await quick.wait_until((await quick.due())[f"run:{run}"])
    await quick.look()
    assert quick.bell.ids("child") == [run]
    assert await quick.state(run) is RunState.QUEUED


async def test_a_wake_reaches_only_whoever_waits_for_that(world: World) -> None:
    journal = await paused(world)
    run = journal.record.id
    assert not await world.runs.wake(USER, run, WaitReason.RATE)
    assert not await world.runs.wake(USER, run, WaitReason.RATE, WaitReason.BACKOFF)
    assert not await world.runs.wake(USER, "nobody", WaitReason.PERMIT)
    assert await world.state(run) is RunState.WAITING
    assert await world.runs.wake(USER, run, WaitReason.RATE, WaitReason.PERMIT)
    before = await world.snapshot()
    assert not await world.runs.wake(USER, run, WaitReason.PERMIT), "a second wake finds it awake"
    assert await world.snapshot() == before


async def test_a_wake_does_not_end_the_wait_for_children(world: World) -> None:
    parent, children = await world.waiting_parent(1)
    assert not await world.runs.wake(USER, parent.record.id, *WaitReason)
    assert await world.state(parent.record.id) is RunState.WAITING
    await world.end(children[0])
    assert await world.state(parent.record.id) is RunState.QUEUED


async def test_the_reason_holds_since_it_began(world: World) -> None:
    journal = await paused(world)
    run = journal.record.id
    since = (await record(world, run)).since
    await world.wait_until(since + 2)
    for pause, same in ((PERMIT, True), (PERMIT.model_copy(update={"why": WaitReason.RATE}), False)):
        await world.runs.wake(USER, run, WaitReason.PERMIT)
        await (await world.hold(run)).pause(pause)
        assert ((await record(world, run)).since == since) is same


async def test_a_paused_run_can_be_cancelled_and_is_not_woken_then(world: World) -> None:
    journal = await paused(world)
    run = journal.record.id
    assert await world.runs.cancel(USER, run) is RunState.CANCELLED
    assert not await world.runs.wake(USER, run, WaitReason.PERMIT)
    assert await world.due() == {}
    await world.runs.get(USER, run)
    with pytest.raises(NotFound):
        await world.runs.get(USER, "nobody")


async def test_a_cancel_of_the_parent_ends_its_paused_child(world: World) -> None:
    parent, [child, other] = await world.waiting_parent(2)
    await (await world.hold(child)).pause(PERMIT)
    await world.runs.cancel(USER, parent.record.id)
    assert await world.states(child, other) == [RunState.CANCELLED] * 2


async def test_a_paused_run_ends_at_its_deadline(world: World) -> None:
    journal = await paused(world)
    run = journal.record.id
    assert (await world.due())[f"end:{run}"] == journal.record.deadline, "a provider's queue is the run's own time"
    await world.on("HSET", f"run:{run}", "deadline", await world.now() - 1)
    await world.make_due(f"end:{run}")
    await world.look()
    found = await record(world, run)
    assert (found.state, found.exit_reason) == (RunState.TIMED_OUT, ExitReason.DEADLINE)


async def test_a_parent_that_is_paused_itself_goes_on_when_its_children_are_done(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    await parent.append(calls_step())
    [child] = await world.batch(parent, 1)
    await parent.pause(PERMIT)
    await world.end(child, DONE)
    assert await world.state(parent.record.id) is RunState.QUEUED


async def test_time_stands_still_while_a_run_is_held_for_its_budget(world: World) -> None:
    journal = await world.held()
    run, left = journal.record.id, journal.seconds_left()
    await journal.pause(BUDGET)
    queue_deadline = (await world.due())[f"end:{run}"]
    assert queue_deadline - await world.now() > 3_500_000, "the limit of the queue counts instead: 3,600 s"
    assert (await record(world, run)).deadline == queue_deadline
    assert await world.runs.wake(USER, run, WaitReason.BUDGET)
    again = await world.hold(run)
    assert left - 2 < again.seconds_left() <= left
    assert (await world.due())[f"end:{run}"] == again.record.deadline


async def test_a_run_that_is_held_for_too_long_ends_and_says_why(world: World) -> None:
    journal = await paused(world, BUDGET)
    run = journal.record.id
    await world.make_due(f"end:{run}")
    await world.look()
    found = await record(world, run)
    assert (found.state, found.exit_reason) == (RunState.TIMED_OUT, ExitReason.QUEUE_DEADLINE)
    assert "daily token budget" in found.result["error"]
