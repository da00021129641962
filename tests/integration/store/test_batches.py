"""Batches: children are started once, joined once, and wake their parent once."""

from __future__ import annotations

import asyncio

import pytest

from hermes_tasks.contracts.errors import LeaseLost, NotFound, RunCancelled
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import StartedStep
from tests.integration.store.world import (
    ANSWER,
    DONE,
    FAILED,
    USER,
    World,
    calls_step,
    guard_of,
    new_run,
    started,
)

pytestmark = pytest.mark.anyio


async def test_a_batch_its_step_and_its_children_appear_together(world: World) -> None:
    session = await world.session()
    parent = await world.hold(await world.say(session))
    await parent.append(calls_step())
    world.bell.take()
    children = await world.batch(parent, 2, "b1")
    assert world.bell.ids() == children == ["b1.0", "b1.1"]
    assert await world.runs.steps(USER, parent.record.id) == [calls_step(), StartedStep(calls=(0,), batch="b1")]
    batch = await world.runs.batch(USER, "b1")
    joined, records = batch.joined, list(batch.children)
    assert (joined, [(record.id, record.index, record.parent, record.batch) for record in records]) == (
        False, [(f"b1.{n}", n, parent.record.id, "b1") for n in range(2)],
    )  # fmt: skip
    kind, data = (await world.stream(session))[-1]
    assert (kind, [child["goal"] for child in data["children"]]) == ("batch.started", ["goal 0", "goal 1"])


async def test_a_batch_whose_answer_was_lost_is_created_once(world: World) -> None:
    parent = await world.held()
    guard = guard_of(parent)
    children = [new_run(run=f"b.{n}", parent=parent.record.id, batch="b", index=n) for n in range(2)]
    await world.runs.create_batch(guard, started("b"), "b", 0, children)
    await world.end("b.0")
    before = await world.snapshot()
    await world.runs.create_batch(guard, started("b"), "b", 0, children)
    assert await world.snapshot() == before


async def test_a_batch_under_an_ended_or_lost_parent_creates_nothing(world: World) -> None:
    parent = await world.held()
    guard = guard_of(parent)
    await world.take_over(parent)
    with pytest.raises(LeaseLost):
        await world.runs.create_batch(
            guard, started("b"), "b", 0, [new_run(run="b.0", parent=parent.record.id, batch="b")]
        )
    await world.runs.cancel(USER, parent.record.id)
    with pytest.raises(RunCancelled):
        await world.runs.create_batch(
            guard, started("b"), "b", 0, [new_run(run="b.0", parent=parent.record.id, batch="b")]
        )
    assert await world.runs.fields(USER, "b.0") == {}
    with pytest.raises(NotFound):
        await world.runs.batch(USER, "b")


async def test_the_last_child_joins_the_batch_once_and_wakes_the_parent(world: World) -> None:
    session = await world.session()
    parent = await world.hold(await world.say(session))
    children = await world.batch(parent, 3, "b")
    assert await parent.suspend()
    run = parent.record.id
    assert await world.state(run) is RunState.WAITING
    assert f"run:{run}" not in await world.due()
    world.bell.take()
    for child in (children[2], children[0]):
        await world.end(child)
    assert (world.bell.ids("turn"), (await world.runs.batch(USER, "b")).joined) == ([], False)
    last = await world.hold(children[1])
    await last.finish(FAILED)
    await last.finish(FAILED)
    batch = await world.runs.batch(USER, "b")
    joined, records = batch.joined, list(batch.children)
    assert (joined, [record.state for record in records]) == (True, ["completed", "failed", "completed"])
    assert world.bell.ids("turn") == [run]
    events = await world.stream(session)
    assert [kind for kind, _ in events if kind.startswith(("child", "batch"))] == [
        "batch.started", "child.started", "child.ended", "child.started", "child.ended", "child.started", "child.ended",
        "batch.joined",
    ]  # fmt: skip
    assert [data["index"] for kind, data in events if kind == "child.ended"] == [2, 0, 1]
    assert (await world.hold(run)).attempt == 2


@pytest.mark.parametrize("how", ["finish", "cancel", "deadline", "queue deadline", "lost"])
async def test_a_batch_is_joined_however_its_children_end(world: World, how: str) -> None:
    parent, [one, two] = await world.waiting_parent(2)
    await world.end(two)
    world.bell.take()
    match how:
        case "finish":
            await world.end(one, FAILED)
        case "cancel":
            await world.runs.cancel(USER, one)
        case "deadline":
            journal = await world.hold(one)
            await world.on("HSET", f"run:{one}", "deadline", await world.now() - 5001)
            await world.make_due(f"end:{one}")
            await world.look()
            assert not journal.record.state.terminal
        case "queue deadline":
            await world.make_due(f"end:{one}")
            await world.look()
        case "lost":
            await world.on("HSET", f"run:{one}", "attempts", 3)
            await world.take_over(await world.hold(one))
    assert world.bell.ids("curation") == [parent.record.id]
    batch = await world.runs.batch(USER, first_batch(parent.steps[-1]))
    joined, [first, _] = batch.joined, batch.children
    assert joined
    assert first.state in {"failed", "cancelled", "timed_out", "lost"}
    assert first.exit_reason


def first_batch(step: object) -> str:
    assert isinstance(step, StartedStep)
    assert step.batch
    return step.batch


async def test_a_batch_that_was_joined_before_the_parent_would_wait_lets_it_go_on(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    [child] = await world.batch(parent, 1)
    world.bell.take()
    await world.end(child)
    assert world.bell.ids("curation") == [], "it is at work, and will look"
    assert not await parent.suspend()
    await parent.append(ANSWER)
    await parent.finish(DONE)


async def test_a_parent_that_was_taken_over_meanwhile_collects_at_its_next_claim(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    [child] = await world.batch(parent, 1)
    await world.take_over(parent)
    await world.end(child)
    assert await world.state(parent.record.id) is RunState.QUEUED
    assert not await (await world.hold(parent.record.id)).suspend()


@pytest.mark.parametrize("round_", range(8))
async def test_a_join_during_the_wait_is_never_missed(world: World, round_: int) -> None:
    parent = await world.held(RunKind.CURATION)
    children = [await world.hold(run) for run in await world.batch(parent, 2)]
    world.bell.take()
    waits, *_ = await asyncio.gather(parent.suspend(), *(child.finish(DONE) for child in children))
    if waits:
        assert world.bell.ids("curation") == [parent.record.id]
        await world.hold(parent.record.id)
    else:
        assert (world.bell.ids("curation"), await world.state(parent.record.id)) == ([], RunState.RUNNING)
        await parent.append(ANSWER)


async def test_a_parent_of_several_batches_wakes_when_the_last_is_joined(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    batches = [await world.batch(parent, 2) for _ in range(3)]
    assert await parent.suspend()
    world.bell.take()
    for number, (one, two) in enumerate(batches):
        await world.end(one)
        await world.end(two)
        assert world.bell.ids("curation") == ([parent.record.id] if number == 2 else [])
    assert not await (await world.hold(parent.record.id)).suspend()


async def test_a_wait_whose_answer_was_lost_is_told_again(world: World) -> None:
    parent = await world.held(RunKind.CURATION)
    await world.batch(parent, 1)
    args = ("run_suspend", parent.record.id, parent.lease.fence, parent.lease.holder, 1)
    assert await world.word(*args) == "ok"
    before = await world.snapshot()
    assert await world.word(*args) == "ok"
    assert await world.snapshot() == before


async def test_a_run_that_never_delegated_has_nothing_to_wait_for(world: World) -> None:
    journal = await world.held()
    assert not await journal.suspend()
    assert await world.state(journal.record.id) is RunState.RUNNING


async def test_nothing_is_claimed_while_it_waits_and_its_deadline_stays(world: World) -> None:
    parent, [one, two] = await world.waiting_parent(2, policy=Policy(iterations=3, deadline_s=900))
    deadline = (await world.runs.get(USER, parent.record.id)).deadline
    assert await world.runs.claim(USER, parent.record.id) is None
    assert (await world.due())[f"end:{parent.record.id}"] == deadline
    await world.end(one)
    await world.end(two)
    assert (await world.hold(parent.record.id)).record.deadline == deadline
