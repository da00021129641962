"""How a run ends, and what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from hermes_tasks.agent.transcript import messages
from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    HermesTasksError,
    LeaseLost,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
    RunCancelled,
    StoreUnavailable,
)
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ModelStep, ToolStep
from hermes_tasks.contracts.strategy import Event
from hermes_tasks.contracts.tools import ProgressNote, ToolOutput
from hermes_tasks.testing.journal import Faults, MemoryJournal, memory_run
from hermes_tasks.testing.model import Reply, ScriptedModel, called, said
from tests.unit.agent.doubles import Bench, Plain, Stored, Tools, World, text_events

pytestmark = pytest.mark.anyio

FIFTY = Policy(iterations=50, deadline_s=900)


async def hang(request: ModelRequest, on_text: OnText | None) -> ModelStep:
    if on_text is not None:
        await on_text("The invoice says ")
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "end_turn", ""])
async def test_calls_are_run_whatever_the_finish_reason(finish: str) -> None:
    with ScriptedModel([called(("send", {"x": 1}), finish=finish), said("done", finish)]) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason, outcome.text) == (RunState.COMPLETED, ExitReason.COMPLETED, "done")
    assert bench.world.effects == ["send 1"]


async def test_text_cut_at_the_output_limit_is_kept_and_says_so() -> None:
    with ScriptedModel([said("half a sen", "length")]) as model:
        outcome = await Bench(model).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.COMPLETED, ExitReason.TRUNCATED)
    assert outcome.text == "half a sen"


@pytest.mark.parametrize("arguments", ["", '{"x": 1', "[1,2]"])
async def test_a_call_cut_at_the_output_limit_is_not_run(arguments: str) -> None:
    cut = called(("send", {"x": 1}), ("send", arguments), finish="length")
    with ScriptedModel([cut, said("done")]) as model:
        bench = Bench(model)
        await bench.advance()
    assert bench.world.effects == ["send 1"]
    results = [step for step in bench.run.steps if isinstance(step, ToolStep)]
    assert {step.call: step.status for step in results} == {0: "ok", 1: "error"}


EMPTY = ["", "\n \n", "\u200b", "<think>let me see</think>", "<thinking>\nnever closed"]


@pytest.mark.parametrize("text", EMPTY)
async def test_an_empty_answer_is_asked_for_once_more_and_then_a_failure(text: str) -> None:
    with ScriptedModel([said(text), said(text)]) as model:
        outcome = await Bench(model).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.EMPTY_ANSWER)
    assert "without text" in (outcome.error or "")


@pytest.mark.parametrize("text", EMPTY)
async def test_the_second_answer_counts(text: str) -> None:
    with ScriptedModel([said(text), said("here")]) as model:
        outcome = await Bench(model).advance()
    assert (outcome.state, outcome.text) == (RunState.COMPLETED, "here")
    roles = [message["role"] for message in model.requests[1].messages]
    assert roles == ["system", "user"]  # no empty assistant message, no two user messages in a row


async def test_the_last_answer_is_asked_for_without_tools_and_keeps_its_summary() -> None:
    replies = [*(called(("send", {"x": n})) for n in range(49)), said("found 49 of 60")]
    with ScriptedModel(replies) as model:
        bench = Bench(model, policy=FIFTY)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.EXHAUSTED, ExitReason.MAX_ITERATIONS)
    assert outcome.text == "found 49 of 60"
    assert len(model.requests) == 50
    assert all(request.tools for request in model.requests[:49])
    assert model.requests[49].tools == ()
    assert "last answer" in model.requests[49].messages[-1]["content"]


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_a_stray_call_instead_of_the_summary_is_a_failure_and_not_run(text: str) -> None:
    replies = [*(called(("send", {"x": n})) for n in range(49)), called(("send", {"x": "stray"}), text=text)]
    with ScriptedModel(replies) as model:
        bench = Bench(model, policy=FIFTY)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MAX_ITERATIONS)
    assert "not run" in (outcome.error or "")
    assert "send stray" not in bench.world.effects
    assert len(model.requests) == 50


async def test_a_policy_of_one_answer_completes() -> None:
    with ScriptedModel([said("short")]) as model:
        outcome = await Bench(model, policy=Policy(iterations=1, deadline_s=60)).advance()
    assert outcome.state is RunState.COMPLETED
    assert model.requests[0].tools == ()


async def test_failed_calls_are_tried_again_and_are_no_iterations() -> None:
    limited = RateLimited("slow down", retry_after=timedelta(seconds=7))
    with ScriptedModel([ModelUnavailable("down"), limited, ModelUnavailable("down"), said("ok")]) as model:
        bench = Bench(model, policy=Policy(iterations=1, deadline_s=600))
        outcome = await bench.advance()
    assert outcome.text == "ok"
    first, second, third = bench.world.waits
    assert 0.5 <= first <= 1
    assert second == 7
    assert 2 <= third <= 4
    assert len(bench.run.stored) == 1


async def test_five_failed_calls_in_a_row_end_the_run() -> None:
    down = [ModelUnavailable("connection\nrefused")] * 5
    with ScriptedModel([called(("send", {"x": 1})), *down]) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert outcome.error == (
        "model unavailable: 5 calls in a row failed, the last one: model unavailable: connection refused"
    )
    assert "send did 1" in outcome.text  # what was finished is not lost
    assert len(bench.world.waits) == 4


async def test_failures_are_counted_in_a_row() -> None:
    down = ModelUnavailable("down")
    replies = [down, down, down, down, called(("look", {})), down, down, down, down, said("ok")]
    with ScriptedModel(replies) as model:
        assert (await Bench(model).advance()).text == "ok"


@pytest.mark.parametrize(
    ("error", "words"),
    [(ModelRefused("no such key", status=401), "refused"), (BadModelAnswer("html"), "not a model's answer")],
)
async def test_what_cannot_be_cured_ends_at_once(error: HermesTasksError, words: str) -> None:
    with ScriptedModel([error]) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert words in (outcome.error or "")
    assert bench.world.waits == []


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    with ScriptedModel([RateLimited("slow", retry_after=timedelta(hours=1))]) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert "3600 s" in (outcome.error or "")
    assert bench.world.waits == []


async def test_every_wait_ends_with_the_deadline() -> None:
    left = iter([100.0, 0.25])
    with ScriptedModel([ModelUnavailable("down")]) as model:
        bench = Bench(model)
        outcome = await bench.advance(MemoryJournal(bench.run, seconds=lambda: next(left, 0.0)))
    assert outcome.state is RunState.TIMED_OUT
    assert bench.world.waits == []


async def test_a_call_may_take_no_longer_than_what_is_left() -> None:
    with ScriptedModel([said("ok")]) as model:
        bench = Bench(model)
        await bench.advance(MemoryJournal(bench.run, seconds=42.0))
    assert model.requests[0].timeout_s == 42.0


async def test_a_hanging_model_leaves_what_was_finished_and_said() -> None:
    async def answer(args: object) -> ToolOutput:
        return ToolOutput("invoice total 418.20, api_key=sk-live1234567890abcdefghijkl")

    world = World(memory_run(FIFTY))
    tools = Tools(Plain("look", world, idempotent=True), Plain("read", world, act=answer))
    replies = [called(("look", {"x": 1})), called(("read", {"x": 2})), called(("look", {"x": 3})), hang]
    with ScriptedModel(replies) as model:
        bench = Bench(model, policy=FIFTY, world=world, tools=tools)
        journal = MemoryJournal(bench.run, seconds=lambda: 0.05 if len(bench.run.stored) == 9 else 900.0)
        outcome = await bench.advance(journal)
    assert (outcome.state, outcome.exit_reason) == (RunState.TIMED_OUT, ExitReason.DEADLINE)
    assert outcome.error == "the limit of 900 s for the whole run passed during a model call"
    assert outcome.text.startswith("The invoice says")
    assert "invoice total 418.20" in outcome.text
    assert "sk-live" not in outcome.text


async def test_a_hanging_tool_is_cancelled_and_named() -> None:
    ended: list[str] = []

    async def stuck(args: object) -> ToolOutput:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stuck")
        raise AssertionError

    world = World(memory_run(FIFTY))
    tools = Tools(Plain("look", world, idempotent=True), Plain("terminal", world, act=stuck))
    with ScriptedModel([called(("terminal", {"x": 1}), ("look", {"x": 2}), text="I try it.")]) as model:
        bench = Bench(model, policy=FIFTY, world=world, tools=tools)
        outcome = await bench.advance(MemoryJournal(bench.run, seconds=lambda: 0.05 if bench.run.stored else 900.0))
    assert outcome.state is RunState.TIMED_OUT
    assert "while terminal was running" in (outcome.error or "")
    assert "I try it." in outcome.text
    assert "look did 2" in outcome.text
    assert ended == ["stuck"]


async def test_the_token_budget_ends_the_run_before_it_is_passed() -> None:
    policy = Policy(iterations=10, deadline_s=600, token_budget=1_000)
    with ScriptedModel([called(("look", {}), text="first look", tokens=(700, 290))]) as model:
        outcome = await Bench(model, policy=policy).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.TOKEN_BUDGET)
    assert "1000" in (outcome.error or "")
    assert "990 are used" in (outcome.error or "")
    assert "first look" in outcome.text


async def test_a_final_answer_that_fills_the_budget_still_counts() -> None:
    policy = Policy(iterations=10, deadline_s=600, token_budget=1_000)
    with ScriptedModel([said("done", tokens=(900, 200))]) as model:
        assert (await Bench(model, policy=policy).advance()).state is RunState.COMPLETED


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
    assert "results/0-0.txt" in content
    assert saved["ann", "run-1", "0-0"] == "begin " + "x" * 40_000 + " end"
