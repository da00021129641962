"""A run from its creation to its end, and everything the store refuses on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_tasks.contracts.errors import InvalidRequest, LeaseLost, NotFound, RunCancelled
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.contracts.steps import Usage
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.runs import Runs
from tests.integration.store.world import ANSWER, DONE, FAILED, USER, World, new_run, tool_step

pytestmark = pytest.mark.anyio

TERMINAL = [state for state in RunState if state.terminal]


async def test_a_created_run_is_stored_queued_and_rung_once(world: World) -> None:
    run = await world.create(spec={"goal": "müßig"}, depth=1)
    assert [(ring.queue, ring.task, ring.args) for ring in world.bell.take()] == [("delegation", "child", (USER, run))]
    record = await world.runs.get(USER, run)
    assert (record.v, record.state, record.fence, record.attempts, record.spec) == (
        1,
        "queued",
        0,
        0,
        {"goal": "müßig"},
    )
    assert record.created <= await world.now()
    assert record.started == record.ended == record.deadline == 0


async def test_creating_it_again_changes_nothing(world: World) -> None:
    run = new_run()
    assert await world.runs.create(run)
    world.bell.take()
    before = await world.snapshot()
    assert not await world.runs.create(run.model_copy(update={"spec": {"goal": "another"}}))
    assert world.bell.take() == []
    assert await world.snapshot() == before


async def test_nothing_is_stored_for_a_user_who_does_not_exist(world: World) -> None:
    with pytest.raises(InvalidRequest, match="no active user 'bob'"):
        await world.runs.create(new_run(user="bob"))
    assert await world.command("KEYS", user_key("bob", "*")) == []


async def test_an_unknown_parent_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="has ended"):
        await world.runs.create(new_run(run="c", parent="nobody"))
    assert await world.runs.fields(USER, "c") == {}


@pytest.mark.parametrize("state", TERMINAL)
async def test_nothing_is_created_under_a_run_that_ended(world: World, state: RunState) -> None:
    parent = await world.held()
    await parent.finish(Outcome(state=state))
    before = await world.snapshot()
    with pytest.raises(InvalidRequest, match="has ended"):
        await world.runs.create(new_run(parent=parent.record.id))
    assert await world.snapshot() == before


async def test_a_child_that_exists_is_told_so_even_after_its_parent_ended(world: World) -> None:
    parent = await world.held()
    child = new_run(parent=parent.record.id)
    assert await world.runs.create(child)
    await parent.finish(DONE)
    assert not await world.runs.create(child)


async def test_the_holder_gets_the_record_and_no_steps_at_first(world: World) -> None:
    run = await world.create(spec={"goal": "g"})
    journal = await world.hold(run)
    record = journal.record
    assert (record.state, record.fence, journal.attempt, list(journal.steps)) == (RunState.RUNNING, 1, 1, [])
    assert record.started
    assert record.deadline == record.started + 600_000
    assert 590 < journal.seconds_left() <= 600


async def test_the_same_doorbell_three_times_claims_once(world: World) -> None:
    run = await world.create()
    others = [Runs(world.store, world.bell, world.renewer) for _ in range(3)]
    claims = await asyncio.gather(*(runs.claim(USER, run) for runs in others))
    assert sum(claim is not None for claim in claims) == 1
    assert await world.runs.claim(USER, run) is None
    assert await world.field(run, "fence") == "1"


async def test_a_claim_whose_answer_was_lost_is_answered_the_same_again(world: World) -> None:
    run = await world.create()
    first = await world.script("run_claim", run, "me", "1")
    again = await world.script("run_claim", run, "me", "1")
    assert (again["r"], again["run"], again["steps"]) == (first["r"], first["run"], first["steps"])


async def test_why_a_run_cannot_be_claimed(world: World) -> None:
    async def why(run: str) -> str:
        return await world.word("run_claim", run, "somebody", "1")

    journal = await world.held()
    run = journal.record.id
    assert await why(run) == "held"
    await world.expire(journal)
    assert await why(run) == "held", "an expired lease is put back by recovery only"
    await world.look()
    await world.on("HSET", f"run:{run}", "not_before", await world.now() + 60_000)
    assert await why(run) == "backoff"
    await world.runs.cancel(USER, run)
    assert await why(run) == "settled"
    assert await why("nobody") == "gone"
    children = [await world.create() for _ in range(9)]
    assert await why(children[8]) == "waiting", "it is in the backlog of its window"
    parent, _ = await world.waiting_parent()
    assert await why(parent.record.id) == "waiting"


async def test_steps_are_kept_in_order_and_their_tokens_are_summed(world: World) -> None:
    journal = await world.held()
    written = [ANSWER, tool_step("ä\n\x00"), ANSWER]
    for step in written:
        await journal.append(step)
    assert await world.runs.steps(USER, journal.record.id) == written == list(journal.steps)
    assert (await world.runs.get(USER, journal.record.id)).usage == Usage(input_tokens=14, output_tokens=6, calls=2)


async def test_a_step_whose_answer_was_lost_is_stored_once(world: World) -> None:
    journal = await world.held()
    step = ANSWER.model_dump_json()
    args = (
        "run_append",
        journal.record.id,
        journal.lease.fence,
        journal.lease.holder,
        0,
        step,
        ANSWER.usage.model_dump_json(),
        "2030-01-01",
        "child|m",
    )
    assert await world.word(*args) == await world.word(*args) == "ok"
    assert await world.runs.steps(USER, journal.record.id) == [ANSWER]
    assert (await world.runs.get(USER, journal.record.id)).usage == Usage(input_tokens=7, output_tokens=3, calls=1)


async def test_another_step_at_a_taken_index_is_refused(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    other = tool_step("other").model_dump_json()
    word = await world.word(
        "run_append", journal.record.id, journal.lease.fence, journal.lease.holder, 0, other, "", "", ""
    )
    assert word == "lost"
    assert await world.runs.steps(USER, journal.record.id) == [ANSWER]


@pytest.mark.parametrize("state", TERMINAL)
async def test_an_end_is_written_once_with_all_that_a_program_wants_to_know(world: World, state: RunState) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    await journal.finish(Outcome(state=state, exit_reason=ExitReason.TRUNCATED, text="so far", error="why"))
    record = await world.runs.get(USER, journal.record.id)
    assert (record.state, record.exit_reason, record.result) == (state, "truncated", {"text": "so far", "error": "why"})
    assert record.created <= record.started <= record.ended <= await world.now()
    assert record.usage.calls == 1
    assert not world.renewer.holds(journal.lease)
    assert await world.due() == {}
    before = await world.snapshot()
    await journal.finish(Outcome(state=RunState.FAILED, error="later"))
    assert await world.snapshot() == before, "the second call of the same holder changes nothing and succeeds"
    with pytest.raises(RunCancelled):
        await journal.append(tool_step())
    assert await world.snapshot() == before


async def test_an_end_with_fewer_steps_than_are_stored_is_refused(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    assert await world.word("run_finish", *lease(journal), 0, "completed", "completed", '{"text":""}') == "lost"
    assert await world.state(journal.record.id) is RunState.RUNNING


async def test_a_run_given_back_is_rung_and_goes_on_from_its_steps(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    world.bell.take()
    await journal.release()
    await journal.release()
    run = journal.record.id
    assert world.bell.ids("child") == [run]
    assert (await world.state(run), await world.field(run, "attempts")) == (RunState.QUEUED, "")
    again = await world.hold(run)
    assert (again.attempt, list(again.steps), again.record.deadline) == (2, [ANSWER], journal.record.deadline)


async def test_what_the_model_sees_is_pinned_by_the_first(world: World) -> None:
    journal = await world.held()
    assert await journal.pin("opening", "system") == ("opening", "system")
    await journal.release()
    assert await (await world.hold(journal.record.id)).pin("other", "else") == ("opening", "system")


async def test_a_prompt_is_pinned_per_generation_of_its_session(world: World) -> None:
    session = await world.session()
    first = await world.hold(await world.say(session))
    await first.pin("one", "prompt of 1")
    await first.finish(DONE)
    second = await world.hold(await world.say(session))
    assert await second.pin("two", "never seen") == ("two", "prompt of 1")
    assert await world.sessions.pinned_prompt(USER, session, 1) == "prompt of 1"
    assert await world.word("run_pin", *lease(second), "two", session, 2, "prompt of 2") == "ok"
    assert await world.on("HGETALL", f"prompt:{session}") == {"2": "prompt of 2"}
    assert await world.sessions.pinned_prompt(USER, session) == "prompt of 2"


async def test_events_are_written_in_order_by_the_holder(world: World) -> None:
    session = await world.session()
    journal = await world.hold(await world.say(session))
    await journal.emit([("text", {"text": "a"}), ("text", {"text": "ö"})])
    await journal.emit([])
    assert [(kind, data["text"]) for kind, data in await world.stream(session) if kind == "text"] == [
        ("text", "a"), ("text", "ö"),
    ]  # fmt: skip


async def test_a_run_without_a_session_tells_nobody(world: World) -> None:
    await (await world.held()).emit([("text", {"text": "a"})])
    assert await world.command("KEYS", user_key(USER, "ev:*")) == []


async def test_runs_are_listed_newest_first_with_their_true_state(world: World) -> None:
    runs = [await world.create(run=name) for name in ("r1", "r2", "r3")]
    await world.end(runs[0], FAILED)
    await world.runs.cancel(USER, runs[1])
    listed = await world.runs.recent(USER, 3)
    assert {(record.id, record.state) for record in listed} == {("r1", "failed"), ("r2", "cancelled"), ("r3", "queued")}
    assert [record.id for record in await world.runs.recent(USER, 1)] <= ["r3"]


async def test_what_is_not_yours_does_not_exist(world: World) -> None:
    await world.users.add("bob")
    run = await world.create()
    for call in (world.runs.get, world.runs.cancel, world.runs.batch):
        with pytest.raises(NotFound):
            await call("bob", run)
    assert await world.runs.claim("bob", run) is None
    assert await world.runs.recent("bob") == []


async def test_a_process_that_renews_nothing_cannot_claim(world: World) -> None:
    with pytest.raises(LeaseLost):
        await Runs(world.store, world.bell).claim(USER, await world.create())


async def test_a_long_result_is_kept_whole(world: World) -> None:
    run = new_id()
    assert await world.runs.save_long(USER, run, "0-1", "x" * 100_000) == f"result:{run}/0-1"
    assert await world.on("HGET", f"spill:{run}", "0-1") == "x" * 100_000


async def test_a_record_that_cannot_be_read_is_not_held(world: World) -> None:
    run = await world.create(RunKind.CHILD)
    await world.on("RPUSH", f"steps:{run}", '{"t":"from the future"}')
    with pytest.raises(ValueError, match="from the future"):
        await world.runs.claim(USER, run)
    assert world.renewer._leases == set(), "its lease runs out, and takeovers end it"


def lease(journal: Any) -> tuple[Any, ...]:
    return journal.record.id, journal.lease.fence, journal.lease.holder
