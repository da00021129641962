"""What a run does with its tools, its lease and its watchers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from hermes_tasks.agent.transcript import messages
from hermes_tasks.contracts.errors import (
    LeaseLost,
    ModelUnavailable,
    RunCancelled,
    StoreUnavailable,
)
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.contracts.strategy import Event
from hermes_tasks.contracts.tools import ProgressNote, ToolOutput
from hermes_tasks.testing.journal import Faults, MemoryJournal, memory_run
from hermes_tasks.testing.model import Reply, ScriptedModel, called, said
from tests.unit.agent.doubles import Bench, Plain, Stored, Tools, World, text_events

pytestmark = pytest.mark.anyio

FIFTY = Policy(iterations=50, deadline_s=900)
MISTAKES = [("search_the_moon", "{}"), ("Note", '{"x": 1}'), ("note", '{"a": 1'), ("note", "[1,2]"), ("note", "{}")]


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_one_mistake_for_ever_ends_after_five(mistake: tuple[str, str]) -> None:
    with ScriptedModel([called(mistake)] * 5) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.REPEATED_FAILURE)
    assert mistake[0] in (outcome.error or "")
    assert bench.world.effects == []


async def test_all_mistakes_in_every_answer_end_too() -> None:
    with ScriptedModel([called(*MISTAKES)] * 5) as model:
        outcome = await Bench(model).advance()
    assert outcome.exit_reason is ExitReason.REPEATED_FAILURE


async def test_work_beside_a_mistake_is_no_loop() -> None:
    answers = [called(MISTAKES[0], ("look", {"x": n})) for n in range(6)]
    with ScriptedModel([*answers, said("done")]) as model:
        assert (await Bench(model).advance()).text == "done"


async def test_a_mistake_and_then_another_way_is_no_loop() -> None:
    four = [called(MISTAKES[0])] * 4
    with ScriptedModel([*four, called(("look", {})), *four, said("done")]) as model:
        assert (await Bench(model).advance()).text == "done"


async def test_the_words_of_a_mistake_reach_the_model() -> None:
    with ScriptedModel([called(*MISTAKES), said("done")]) as model:
        await Bench(model).advance()
    history = model.requests[1].messages
    for call in history[2]["tool_calls"]:
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    results = [message["content"] for message in history if message["role"] == "tool"]
    assert "there are look, send, note" in results[0]
    assert results[4] == "x is required"


async def test_a_tool_that_fails_inside_costs_only_its_call() -> None:
    async def broken(args: object) -> ToolOutput:
        raise KeyError("oops")

    world = World(memory_run(FIFTY))
    tools = Tools(Plain("parse", world, act=broken), Stored("note", world))
    with ScriptedModel([called(("parse", {"x": 1}), ("note", {"x": 2})), said("done")]) as model:
        bench = Bench(model, world=world, tools=tools)
        outcome = await bench.advance()
    assert outcome.text == "done"
    contents = [message["content"] for message in model.requests[1].messages if message["role"] == "tool"]
    assert "failed inside (KeyError)" in contents[0]
    assert contents[1] == "noted 2"


async def test_a_store_that_is_away_is_not_the_tools_fault() -> None:
    async def away(args: object) -> ToolOutput:
        raise StoreUnavailable("no answer")

    world = World(memory_run(FIFTY))
    with ScriptedModel([called(("search", {"x": 1}))]) as model, pytest.raises(StoreUnavailable):
        await Bench(model, world=world, tools=Tools(Plain("search", world, act=away))).advance()


async def test_plain_tools_run_side_by_side() -> None:
    both = asyncio.Event()
    inside: list[object] = []

    async def meet(args: object) -> ToolOutput:
        inside.append(args)
        if len(inside) == 2:
            both.set()
        await both.wait()
        return ToolOutput("met")

    world = World(memory_run(FIFTY))
    with ScriptedModel([called(("meet", {"x": 1}), ("meet", {"x": 2})), said("done")]) as model:
        bench = Bench(model, world=world, tools=Tools(Plain("meet", world, act=meet)))
        async with asyncio.timeout(5):
            outcome = await bench.advance()
    assert outcome.text == "done"


async def test_stored_tools_keep_the_order_of_the_calls() -> None:
    calls = [("note", {"x": n}) for n in range(6)]
    with ScriptedModel([called(*calls), said("done")]) as model:
        bench = Bench(model)
        await bench.advance()
    assert bench.world.effects == [f"note {n}" for n in range(6)]


async def test_children_and_parent_fit_through_one_slot() -> None:
    calls = called(("delegate_task", {"x": 1}), ("send", {"x": 2}), ("delegate_task", {"x": 3}))
    with ScriptedModel([calls, said("joined")]) as model:
        bench = Bench(model)
        waiting = await bench.advance()
        assert waiting.state is RunState.WAITING
        assert bench.run.state is RunState.WAITING
        assert len(model.requests) == 1
        assert bench.world.effects == ["delegate_task 1", "delegate_task 3", "send 2"]  # batches begin first
        bench.run.pending.clear()
        outcome = await bench.advance()
    assert outcome.text == "joined"
    results = [message["content"] for message in model.requests[1].messages if message["role"] == "tool"]
    assert results == ["children of batch-1 are done", "send did 2", "children of batch-3 are done"]


async def test_a_join_that_overtakes_the_suspension_is_collected_here() -> None:
    with ScriptedModel([called(("delegate_task", {"x": 1})), said("joined")]) as model:
        bench = Bench(model)
        journal = MemoryJournal(bench.run, Faults(suspends=(False, False)))

        async def sleep(seconds: float) -> None:
            if len(bench.world.waits) == 1:
                bench.run.pending.clear()
            await World.sleep(bench.world, seconds)

        bench.around["sleep"] = sleep
        outcome = await bench.advance(journal)
    assert outcome.text == "joined"
    assert bench.run.claims == 1
    assert bench.world.waits == [0.05, 0.1]


@pytest.mark.parametrize("write", [1, 2, 3, 4])
@pytest.mark.parametrize(("fault", "error"), [("lose_at", LeaseLost), ("cancel_at", RunCancelled)])
async def test_a_lost_run_stops_at_once(write: int, fault: str, error: type[Exception]) -> None:
    replies = [called(("send", {"x": 1}), ("send", {"x": 2})), said("done")]
    bench = Bench(ScriptedModel(replies))
    with pytest.raises(error):
        await bench.advance(MemoryJournal(bench.run, Faults(**{fault: write})))
    assert len(bench.run.stored) == write - 1


async def test_nothing_begins_without_a_fresh_lease() -> None:
    with ScriptedModel([called(("send", {"x": 1}), ("note", {"x": 2}), ("delegate_task", {}))]) as model:
        bench = Bench(model)
        journal = MemoryJournal(bench.run)

        async def lost(args: object) -> ToolOutput:
            journal.lose(LeaseLost("gone"))
            return ToolOutput("too late")

        bench.tools = Tools(Plain("send", bench.world, act=lost))
        with pytest.raises(LeaseLost):
            await bench.advance(journal)
    assert journal.readies >= 2


async def test_cancellation_leaves_nothing_running() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def stuck(args: object) -> ToolOutput:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    world = World(memory_run(FIFTY))
    bench = Bench(ScriptedModel([called(("stuck", {}))]), world=world, tools=Tools(Plain("stuck", world, act=stuck)))
    task = asyncio.create_task(bench.advance())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_stopping_worker_stops_between_two_steps() -> None:
    with ScriptedModel([called(("send", {"x": 1}))]) as model:
        bench = Bench(model, around={"stopping": lambda: len(bench.run.stored) >= 3})
        outcome = await bench.advance()
    assert outcome.state is RunState.QUEUED
    assert bench.world.effects == ["send 1"]
    assert len(bench.run.stored) == 3


async def test_a_final_answer_is_the_outcome_even_while_stopping() -> None:
    with ScriptedModel([said("done")]) as model:
        bench = Bench(model, around={"stopping": lambda: bool(bench.run.stored)})
        assert (await bench.advance()).state is RunState.COMPLETED


BLOCK = "<memory-context>\nSECRET-RECALL-71\n</memory-context>"


async def test_internal_tags_are_nowhere_a_user_can_read() -> None:
    first = called(("look", {}), text=f"Before\n{BLOCK}\nafter")
    pieces = ("Answer:\n", "<mem", "ory-context>", "\nSECRET-", "RECALL-71\n</memory-", "context>", "\nThe end.\n")
    with ScriptedModel([first, Reply(said("".join(pieces)), pieces)]) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    streamed = "".join(data["text"] for _, kind, data in bench.run.events if kind == "text")
    for shown in (outcome.text, streamed, "".join(bench.run.stored), json.dumps(messages(bench.plan, bench.run.steps))):
        assert "SECRET-RECALL-71" not in shown
        assert "memory-context" not in shown
    assert outcome.text.startswith("Answer:\n")
    assert outcome.text.endswith("\nThe end.\n")
    assert streamed.endswith("\nThe end.\n")
    assert "Before\n" in streamed
    assert "\nafter" in streamed


async def test_a_broken_stream_is_taken_back_and_told_again() -> None:
    seen = asyncio.Event()

    def notes(note: ProgressNote) -> Sequence[Event]:
        seen.set()
        return text_events(note)

    async def breaks(request: ModelRequest, on_text: OnText | None) -> ModelStep:
        assert on_text is not None
        await on_text("Starting…")
        await seen.wait()
        raise ModelUnavailable("the connection dropped")

    with ScriptedModel([breaks, said("whole")]) as model:
        bench = Bench(model, notes=notes)
        outcome = await bench.advance()
    assert outcome.text == "whole"
    assert [(kind, data["text"]) for _, kind, data in bench.run.events] == [
        ("text", "Starting…"),
        ("step_restarted", ""),
        ("text", "whole"),
        ("answer", "whole"),
    ]


async def test_a_long_result_is_kept_whole_elsewhere() -> None:
    saved: dict[tuple[str, str, str], str] = {}

    class Drawer:
        async def save_long(self, user: str, run: str, name: str, text: str) -> str:
            saved[user, run, name] = text
            return f"results/{name}.txt"

    async def long(args: object) -> ToolOutput:
        return ToolOutput("begin " + "x" * 40_000 + " end")

    world = World(memory_run(FIFTY))
    with ScriptedModel([called(("long", {})), said("done")]) as model:
        bench = Bench(model, world=world, tools=Tools(Plain("long", world, act=long)), around={"spill": Drawer()})
        await bench.advance()
    content = model.requests[1].messages[-1]["content"]
    assert len(content) < 17_000
    assert content.startswith("begin ")
    assert " end" in content
    assert "results/0-0-1.txt" in content
    assert saved["ann", "run-1", "0-0-1"] == "begin " + "x" * 40_000 + " end"
