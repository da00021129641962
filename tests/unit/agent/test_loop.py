"""How a run ends, and what it costs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    HermesTasksError,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
)
from hermes_tasks.contracts.kinds import ExitReason, RunState, WaitReason
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ModelStep, ToolStep
from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.testing.journal import MemoryJournal, memory_run
from hermes_tasks.testing.model import ScriptedModel, called, said
from tests.unit.agent.doubles import Bench, Plain, Tools, World

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
        outcome, pauses = await bench.through_pauses()
    assert outcome.text == "ok"
    [first] = bench.world.waits  # a short wait, in the slot
    assert 0.5 <= first <= 1
    assert [(pause.why, pause.failures) for pause in pauses] == [(WaitReason.RATE, 1), (WaitReason.BACKOFF, 2)]
    assert 6 < pauses[0].wait_s <= 7
    assert 1 <= pauses[1].wait_s <= 2
    assert len(bench.run.stored) == 1


async def test_five_failed_calls_in_a_row_end_the_run() -> None:
    down = [ModelUnavailable("connection\nrefused")] * 5
    with ScriptedModel([called(("send", {"x": 1})), *down]) as model:
        bench = Bench(model)
        outcome, pauses = await bench.through_pauses()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert outcome.error == (
        "model unavailable: 5 calls in a row failed, the last one: model unavailable: connection refused"
    )
    assert "send did 1" in outcome.text  # what was finished is not lost
    assert [pause.failures for pause in pauses] == [2, 3, 4]  # the first was waited for in the slot
    assert len(bench.world.waits) == 1


async def test_failures_are_counted_in_a_row() -> None:
    down = ModelUnavailable("down")
    replies = [down, down, down, down, called(("look", {})), down, down, down, down, said("ok")]
    with ScriptedModel(replies) as model:
        outcome, _ = await Bench(model).through_pauses()
    assert outcome.text == "ok"


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
