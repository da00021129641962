"""Cancel: one script ends everything below, whoever holds it and whether anybody does."""

from __future__ import annotations

import asyncio

import pytest

from hermes_tasks.contracts.errors import InvalidRequest, NotFound, RunCancelled
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.steps import ModelStep
from tests.integration.store.world import ANSWER, DONE, USER, World, calls_step, guard_of, new_run, started, tool_step

pytestmark = pytest.mark.anyio


async def queued(world: World) -> str:
    return await world.create()


async def in_the_backlog(world: World) -> str:
    return [await world.create() for _ in range(9)][-1]


async def held_and_not_begun(world: World) -> str:
    return (await world.held()).record.id


async def at_work(world: World) -> str:
    journal = await world.held()
    await journal.append(calls_step())
    await journal.append(tool_step())
    return journal.record.id


async def waiting(world: World) -> str:
    return (await world.waiting_parent(1))[0].record.id


async def abandoned(world: World) -> str:
    journal = await world.held()
    await world.expire(journal)
    return journal.record.id


async def backing_off(world: World) -> str:
    journal = await world.held()
    await world.take_over(journal)
    await world.on("HSET", f"run:{journal.record.id}", "not_before", await world.now() + 60_000)
    return journal.record.id


@pytest.mark.parametrize("make", [queued, in_the_backlog, held_and_not_begun, at_work, waiting, abandoned, backing_off])
async def test_a_run_is_cancelled_in_whatever_state_it_is(world: World, make: object) -> None:
    assert callable(make)
    run = await make(world)
    assert await world.runs.cancel(USER, run) is RunState.CANCELLED
    record = await world.runs.get(USER, run)
    assert (record.state, record.exit_reason, record.result) == (RunState.CANCELLED, ExitReason.CANCELLED, {"text": ""})
    assert record.ended
    before = await world.snapshot()
    assert await world.runs.cancel(USER, run) is RunState.CANCELLED
    assert await world.snapshot() == before, "the second call changes nothing and tells the state"
    assert await world.runs.claim(USER, run) is None
    assert not {f"run:{run}", f"end:{run}"} & set(await world.due())
    for member in (f"run:{run}", f"end:{run}"):
        await world.make_due(member)
    await world.look()
    assert await world.state(run) is RunState.CANCELLED


async def test_an_unknown_run_cannot_be_cancelled(world: World) -> None:
    with pytest.raises(NotFound):
        await world.runs.cancel(USER, "nobody")


async def test_a_holder_learns_it_at_its_next_write(world: World) -> None:
    journal = await world.held()
    await world.runs.cancel(USER, journal.record.id)
    with pytest.raises(RunCancelled):
        await journal.append(ANSWER)
    with pytest.raises(RunCancelled):
        await journal.finish(DONE)
    assert (await world.runs.get(USER, journal.record.id)).state is RunState.CANCELLED


async def test_stop_reaches_children_that_run_wait_and_are_not_yet_there(world: World) -> None:
    """One child runs, some wait in the queue and in the backlog, one is not yet enqueued; D-07."""
    session = await world.session()
    parent = await world.hold(await world.say(session))
    children = await world.batch(parent, 5)
    first = await world.hold(children[0])
    await first.append(calls_step())
    inner = await world.batch(first, 2)
    guard = guard_of(parent)
    assert await world.runs.cancel(USER, parent.record.id) is RunState.CANCELLED
    assert await world.states(*children, *inner) == [RunState.CANCELLED] * 7
    for run in (*children, *inner):
        assert await world.runs.claim(USER, run) is None
    with pytest.raises(RunCancelled):
        await first.append(tool_step())
    with pytest.raises(RunCancelled):
        await world.runs.create_batch(
            guard, started("more"), "more", 1, [new_run(parent=parent.record.id, batch="more")]
        )
    for above in (parent.record.id, children[0]):
        with pytest.raises(InvalidRequest, match="has ended"):
            await world.runs.create(new_run(parent=above))
    again = await world.sessions.post(USER, session, "and now?")
    assert again.begun == again.message, "the session takes the next message at once"
    assert await world.on("SMEMBERS", "win:child") == set()


async def test_a_stored_final_answer_completes_instead(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    assert await world.runs.cancel(USER, journal.record.id) is RunState.COMPLETED
    record = await world.runs.get(USER, journal.record.id)
    assert (record.exit_reason, record.result["text"]) == (ExitReason.COMPLETED, "the answer")


@pytest.mark.parametrize("last", [ModelStep(text=" \n"), calls_step(), tool_step("an answer of a tool")])
async def test_what_is_not_a_final_answer_does_not_complete(world: World, last: ModelStep) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    await journal.append(last)
    assert await world.runs.cancel(USER, journal.record.id) is RunState.CANCELLED


async def test_a_child_that_had_answered_completes_while_its_siblings_are_cancelled(world: World) -> None:
    parent, [one, two] = await world.waiting_parent(2)
    journal = await world.hold(one)
    await journal.append(ANSWER)
    await world.runs.cancel(USER, parent.record.id)
    assert await world.states(parent.record.id, one, two) == ["cancelled", "completed", "cancelled"]


async def test_a_run_that_completes_at_cancel_takes_its_children_along(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    [child] = await world.batch(parent, 1)
    held_child = await world.hold(child)
    [grandchild] = await world.batch(held_child, 1)
    await held_child.append(ANSWER)
    await parent.append(ANSWER)
    assert await world.runs.cancel(USER, parent.record.id) is RunState.COMPLETED
    assert await world.states(child, grandchild) == ["completed", "cancelled"]


async def test_what_a_completed_child_left_at_work_is_cancelled_with_the_tree(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    [child] = await world.batch(parent, 1)
    held_child = await world.hold(child)
    grandchild = await world.create(parent=child)
    await held_child.finish(DONE)
    assert await world.state(grandchild) is RunState.QUEUED
    await world.runs.cancel(USER, parent.record.id)
    assert await world.state(grandchild) is RunState.CANCELLED


async def test_a_cancelled_child_joins_and_wakes_its_parent(world: World) -> None:
    parent, [one, two] = await world.waiting_parent(2)
    await world.end(one)
    world.bell.take()
    await world.runs.cancel(USER, two)
    assert world.bell.ids("curation") == [parent.record.id]


async def test_a_cancelled_turn_is_kept_in_history_and_the_next_begins(world: World) -> None:
    session = await world.session()
    first, second = await world.say(session, "one"), await world.say(session, "two")
    await world.runs.cancel(USER, first)
    [turn] = await world.sessions.history(USER, session)
    assert (turn["state"], turn["reason"], turn["user"]) == ("cancelled", "cancelled", "one")
    assert await world.state(second) is RunState.QUEUED
    assert (await world.sessions.get(USER, session))["open"] == second


async def test_cancel_and_finish_at_once_write_one_end(world: World) -> None:
    for _ in range(8):
        journal = await world.held()
        cancelled, finished = await asyncio.gather(
            world.runs.cancel(USER, journal.record.id), journal.finish(DONE), return_exceptions=True
        )
        state = await world.state(journal.record.id)
        assert cancelled is state
        assert isinstance(finished, RunCancelled) is (state is RunState.CANCELLED)
