"""Deadlines belong to the run: they end it whether somebody holds it or not."""

from __future__ import annotations

import asyncio

import pytest

from hermes_tasks.contracts.errors import RunCancelled
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import ANSWER, DONE, USER, World, tool_step

pytestmark = pytest.mark.anyio

SHORT = Policy(iterations=3, deadline_s=1, queue_deadline_s=1)


async def pass_deadline(world: World, run: str, *, by_ms: int = 1) -> None:
    """The run's deadline was ``by_ms`` ago."""
    await world.on("HSET", f"run:{run}", "deadline", await world.now() - by_ms)
    await world.make_due(f"end:{run}")


async def ended(world: World, run: str) -> tuple[RunState, ExitReason | None]:
    record = await world.runs.get(USER, run)
    return record.state, record.exit_reason


@pytest.mark.parametrize("backlog", [False, True])
async def test_a_run_that_nobody_started_in_time_ends(world: World, backlog: bool) -> None:
    run = [await world.create() for _ in range(9)][8 if backlog else 0]
    await world.make_due(f"end:{run}")
    await world.look()
    assert await ended(world, run) == (RunState.TIMED_OUT, ExitReason.QUEUE_DEADLINE)
    assert (await world.runs.get(USER, run)).result["error"] == "not started in time"
    assert await world.runs.claim(USER, run) is None


async def test_a_start_ends_the_queue_deadline(world: World) -> None:
    journal = await world.held()
    assert (await world.due())[f"end:{journal.record.id}"] == journal.record.deadline


async def test_a_waiting_run_ends_at_its_deadline_with_its_children(world: World) -> None:
    parent, children = await world.waiting_parent(2)
    await pass_deadline(world, parent.record.id)
    await world.look()
    assert await ended(world, parent.record.id) == (RunState.TIMED_OUT, ExitReason.DEADLINE)
    assert (await world.runs.get(USER, parent.record.id)).result["error"] == "not finished within 600 s"
    assert await world.states(*children) == [RunState.CANCELLED] * 2


async def test_a_live_holder_gets_five_seconds_to_end_it_by_itself(world: World) -> None:
    journal = await world.held()
    run = journal.record.id
    await pass_deadline(world, run)
    await world.look()
    assert await world.state(run) is RunState.RUNNING
    deadline = int(await world.field(run, "deadline"))
    assert (await world.due())[f"end:{run}"] == deadline + 5000
    await pass_deadline(world, run, by_ms=5001)
    await world.look()
    assert await ended(world, run) == (RunState.TIMED_OUT, ExitReason.DEADLINE)
    with pytest.raises(RunCancelled):
        await journal.append(tool_step())


async def test_a_dead_holder_gets_none(world: World) -> None:
    journal = await world.held()
    await world.expire(journal)
    await pass_deadline(world, journal.record.id)
    await world.look(takeovers=False)
    assert await ended(world, journal.record.id) == (RunState.TIMED_OUT, ExitReason.DEADLINE)


async def test_a_takeover_does_not_give_more_time(world: World) -> None:
    journal = await world.held()
    run, deadline = journal.record.id, journal.record.deadline
    await world.take_over(journal)
    assert (await world.hold(run)).record.deadline == deadline
    assert (await world.due())[f"end:{run}"] == deadline


async def test_a_run_between_two_holders_ends_at_its_deadline(world: World) -> None:
    journal = await world.held()
    await journal.release()
    await pass_deadline(world, journal.record.id)
    await world.look()
    assert await ended(world, journal.record.id) == (RunState.TIMED_OUT, ExitReason.DEADLINE)


async def test_an_answer_that_was_stored_in_time_counts(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    await world.expire(journal)
    await pass_deadline(world, journal.record.id)
    await world.look(takeovers=False)
    assert await ended(world, journal.record.id) == (RunState.COMPLETED, ExitReason.COMPLETED)


async def test_both_deadlines_end_runs_when_real_time_passes(quick: World) -> None:
    unstarted = await quick.create(RunKind.CURATION, policy=SHORT)
    parent = await quick.held(policy=SHORT.model_copy(update={"queue_deadline_s": 60}))
    [child] = await quick.batch(parent, 1)
    assert await parent.suspend()
    sweeping = asyncio.create_task(quick.recovery.run())
    try:
        await eventually(lambda: _both(quick, unstarted, parent.record.id))
    finally:
        sweeping.cancel()
    for run, reason, since in (
        (unstarted, ExitReason.QUEUE_DEADLINE, "created"), (parent.record.id, ExitReason.DEADLINE, "started"),
    ):  # fmt: skip
        record = await quick.runs.get(USER, run)
        assert (record.state, record.exit_reason) == (RunState.TIMED_OUT, reason)
        assert record.ended - getattr(record, since) >= 1000
    assert await quick.state(child) is RunState.CANCELLED


async def _both(world: World, *runs: str) -> bool:
    return all([(await world.state(run)).terminal for run in runs])


async def test_an_end_before_the_deadline_forgets_it(world: World) -> None:
    run = await world.create()
    await world.end(run, DONE)
    assert await world.due() == {}
