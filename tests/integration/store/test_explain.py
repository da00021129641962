"""Why a run is where it is, and since when: one test for each thing a run may wait for."""

from __future__ import annotations

import pytest

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.kinds import RunKind, RunState, WaitReason
from hermes_tasks.contracts.runs import Pause
from hermes_tasks.store.explain import Reason, explain
from tests.integration.store.world import ANSWER, DONE, FAILED, USER, World, calls_step, tool_step

pytestmark = pytest.mark.anyio


async def only(world: World, run: str) -> Reason:
    _, [reason] = await explain(world.store, USER, run)
    return reason


async def test_no_worker_serves_its_queue(world: World) -> None:
    run = await world.create()
    reason = await only(world, run)
    assert reason.what == "no worker"
    assert "delegation" in reason.detail
    assert reason.since_ms == int(await world.field(run, "created"))
    await world.recovery.sweep()
    assert (await only(world, run)).what == "worker"
    [name, _] = await world.command("ZRANGE", "ht:workers", 0, 0, "WITHSCORES")
    await world.command("ZADD", "ht:workers", await world.now() - 60_000, name)
    assert (await only(world, run)).what == "no worker", "a worker that is silent for a minute is none"


async def test_the_window_is_full_and_who_goes_first(world: World) -> None:
    runs = [await world.create() for _ in range(10)]
    reason = await only(world, runs[9])
    assert reason.what == "window"
    assert "8 of 8 runs of kind child" in reason.detail
    assert "1 runs of the same parent go before it, and 0 other parents" in reason.detail


async def test_three_of_its_parent_are_at_work(world: World) -> None:
    _, children = await world.waiting_parent(5)
    reason = await only(world, children[4])
    assert "3 of 3 children of its parent are in flight; 1 runs of the same parent go before it" in reason.detail


async def test_a_parent_names_each_open_child(world: World) -> None:
    parent, children = await world.waiting_parent(3)
    await world.end(children[0])
    await world.hold(children[2])
    _, reasons = await explain(world.store, USER, parent.record.id)
    assert {reason.what for reason in reasons} == {"children"}
    assert [reason.detail.partition(" in process")[0] for reason in reasons] == [
        f"child 1 of 3 ({children[1]}) is queued", f"child 2 of 3 ({children[2]}) is running"
    ]  # fmt: skip
    assert reasons[0].until_ms is None


async def test_a_turn_waits_no_longer_than_its_limit(world: World) -> None:
    session = await world.session("talk")
    turn = await world.hold(await world.say(session))
    await world.batch(turn, 1, wait_s=300)
    assert await turn.suspend()
    reason = await only(world, turn.record.id)
    assert reason.until_ms is not None
    assert reason.since_ms is not None
    assert reason.until_ms - reason.since_ms == 300_000


@pytest.mark.parametrize(
    ("why", "what"),
    [
        (WaitReason.PERMIT, "provider limit"), (WaitReason.RATE, "provider limit"), (WaitReason.BACKOFF, "backoff"),
        (WaitReason.BUDGET, "held: budget"),
    ],
)  # fmt: skip
async def test_a_pause_says_for_what_until_when_and_since_when(world: World, why: WaitReason, what: str) -> None:
    journal = await world.held()
    await journal.pause(Pause(why=why, detail="2030-01-01 00:00", wait_s=60, failures=2))
    first = await only(world, journal.record.id)
    assert first.what == what
    assert first.since_ms is not None
    assert first.until_ms is not None
    assert 59_000 < first.until_ms - first.since_ms <= 60_000
    assert "2030-01-01" in first.detail
    await world.runs.wake(USER, journal.record.id, why)
    again = await world.hold(journal.record.id)
    await again.pause(Pause(why=why, wait_s=60))
    assert (await only(world, journal.record.id)).since_ms == first.since_ms, "it waits for the same all the time"
    await world.runs.wake(USER, journal.record.id, why)
    third = await world.hold(journal.record.id)
    await third.append(ANSWER)
    await third.pause(Pause(why=why, wait_s=60))
    assert (await only(world, journal.record.id)).since_ms != first.since_ms


async def test_after_two_deaths_it_is_tried_again_later(world: World) -> None:
    run = await world.create()
    for _ in range(2):
        journal = await world.runs.claim(USER, run)
        assert journal is not None
        await world.take_over(journal)
    reason = await only(world, run)
    assert reason.what == "backoff"
    assert reason.detail.startswith("2 processes died")
    assert reason.until_ms is not None


async def test_at_work_it_says_where_and_at_what(world: World) -> None:
    journal = await world.held()
    assert "asks the model, in process" in (await only(world, journal.record.id)).detail
    await journal.append(calls_step(2))
    await journal.append(tool_step(call=0))
    assert "runs delegate_task, in process" in (await only(world, journal.record.id)).detail
    await journal.append(tool_step(call=1))
    assert "asks the model" in (await only(world, journal.record.id)).detail


async def test_an_end_says_how(world: World) -> None:
    good, bad = await world.create(), await world.create()
    await world.end(good, DONE)
    await world.end(bad, FAILED)
    assert (await only(world, good)).detail == "completed: completed"
    assert (await only(world, bad)).detail == "failed: no model"


async def test_a_message_waits_behind_the_open_turn(world: World) -> None:
    session = await world.session("talk")
    first, second, third = [await world.say(session) for _ in range(3)]
    record, [reason] = await explain(world.store, USER, third)
    assert (record, reason.what) == (None, "inbox")
    assert f"1 messages before it, and turn {first} is open" in reason.detail
    assert "no message before it" in (await only(world, second)).detail


async def test_what_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        await explain(world.store, USER, "no-such-run")


async def test_a_parent_whose_children_ended_is_about_to_go_on(world: World) -> None:
    parent, children = await world.waiting_parent(1)
    await world.end(children[0])
    record, [reason] = await explain(world.store, USER, parent.record.id)
    assert record is not None
    assert (record.kind, record.state, reason.what) == (RunKind.CURATION, RunState.QUEUED, "no worker")
