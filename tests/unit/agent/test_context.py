"""Token estimates, and what happens when a conversation gets too long."""

from __future__ import annotations

import json

import pytest

from hermes_tasks.agent.budget import correction, next_request_tokens, request_tokens, text_tokens
from hermes_tasks.agent.context import Cut, best_cut, is_full, summary_request
from hermes_tasks.contracts.errors import ContextTooLong, ModelUnavailable
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import SummaryStep, ToolStep
from hermes_tasks.testing.model import ScriptedModel, called, said
from tests.unit.agent.doubles import Bench, plan_of

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=20, deadline_s=600)
LONG = "long " * 1_000  # 1,250 tokens


def group(size: int) -> list[AnyStep]:
    return [called(("look", {})), ToolStep(call=0, name="look", content="r" * size * 4)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("abcdefgh", 2, 2),
        ("日本語の文章です", 8, 8),
        ("Привет, мир", 3, 7),
        ("naïve café", 2, 4),
        ("🎉" * 10, 10, 20),
    ],
)
def test_text_tokens(text: str, low: int, high: int) -> None:
    assert low <= text_tokens(text) <= high


def test_half_a_character_does_no_harm() -> None:
    assert text_tokens("\ud83d") >= 0


def test_images_tools_and_calls_are_counted() -> None:
    parts = [{"type": "text", "text": "a" * 400}, {"type": "image_url", "image_url": {"url": "data:" + "x" * 10_000}}]
    assert 1_100 <= request_tokens([{"role": "user", "content": parts}]) <= 1_200
    assert request_tokens([], [{"name": "x" * 400}]) >= 100
    call = {"id": "a", "function": {"name": "n", "arguments": "x" * 400}}
    assert request_tokens([{"role": "assistant", "content": None, "tool_calls": [call]}]) >= 100


def test_the_providers_count_corrects_the_estimate() -> None:
    plan = plan_of(POLICY, messages=({"role": "user", "content": LONG},))
    plain = next_request_tokens(plan, [])
    steps = [called(("look", {}), tokens=(plain * 2, 10)), ToolStep(call=0, name="look", content="ok")]
    assert correction(plan, steps) == 2.0
    assert next_request_tokens(plan, steps) > 2 * plain
    assert correction(plan, [called(("look", {}), tokens=(plain * 100, 1))]) == 4.0  # nonsense is bounded
    assert correction(plan, [called(("look", {}))]) == 1.0
    assert correction(plan_of(POLICY), [called(("look", {}), tokens=(400, 1))]) == 1.0  # too short to tell


def test_three_quarters_is_full() -> None:
    plan = plan_of(POLICY)
    steps = group(750)
    assert not is_full(plan, steps, 1_100)
    assert is_full(plan, steps, 1_000)
    assert not is_full(plan, steps, 0)
    assert not is_full(plan, [*steps, SummaryStep(text="s" * 4_000, upto=0)], 1_000)  # no endless condensing


def test_the_newest_answers_stay_whole() -> None:
    plan = plan_of(POLICY)
    steps = [*group(500), *group(300), *group(50), *group(50)]
    assert best_cut(plan, steps, 1_000) == Cut(4, history=False)
    assert best_cut(plan, [*group(50), *group(900)], 1_000) == Cut(4, history=False)  # the newest alone is too long
    assert best_cut(plan, steps, 0) == Cut(8, history=False)  # unknown window, and the provider refused


def test_a_second_cut_goes_on_from_the_first() -> None:
    plan = plan_of(POLICY)
    steps = [*group(500), *group(50), SummaryStep(text="gist", upto=2), *group(600), *group(50)]
    assert best_cut(plan, steps, 1_000) == Cut(7, history=False)
    source = json.dumps(summary_request(plan, steps, Cut(7, history=False), 100_000))
    assert "gist" in source
    assert source.count("CALL look") == 2


def test_a_long_history_is_condensed_too() -> None:
    before = (
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": LONG},
        {"role": "user", "content": "Do it."},
    )
    plan = plan_of(POLICY, messages=before)
    assert best_cut(plan, [], 3_000) == Cut(0, history=True)
    assert best_cut(plan, group(50), 3_000) == Cut(0, history=True)
    assert best_cut(plan, [SummaryStep(text="gist", upto=0, history=True)], 3_000) is None


def test_nothing_to_cut() -> None:
    assert best_cut(plan_of(POLICY), [], 1_000) is None


def test_recalled_blocks_do_not_enter_a_summary() -> None:
    block = "<memory-context>\nSECRET-RECALL-71\n</memory-context>\n"
    plan = plan_of(POLICY, messages=({"role": "user", "content": block + "Do it."},))
    source = json.dumps(summary_request(plan, group(10), Cut(2, history=False), 0))
    assert "SECRET-RECALL-71" not in source
    assert "Do it." in source


def test_a_summary_request_fits() -> None:
    plan = plan_of(POLICY, messages=({"role": "user", "content": "the goal"},))
    steps = [step for _ in range(50) for step in group(2_000)]
    request = summary_request(plan, steps, Cut(100, history=False), 4_000)
    assert request_tokens(request) < 2_000
    assert "the goal" in request[1]["content"]


async def test_condensed_once_and_paid_once() -> None:
    replies = [
        called(("look", {"x": LONG}), tokens=(50, 10)),
        said("Found the number 418.20.", tokens=(900, 20)),
        called(("look", {"x": "small"})),
        said("done"),
    ]
    with ScriptedModel(replies, window=3_000) as model:
        bench = Bench(model)
        outcome = await bench.advance()
    assert outcome.text == "done"
    summaries = [step for step in bench.run.steps if isinstance(step, SummaryStep)]
    assert [(step.text, step.upto, step.usage.input_tokens) for step in summaries] == [
        ("Found the number 418.20.", 3, 900)
    ]
    assert model.requests[1].tools == ()
    after = json.dumps(model.requests[2].messages)
    assert "418.20" in after
    assert LONG not in after
    assert any(LONG in text for text in bench.run.stored)  # the originals are kept


async def test_the_providers_refusal_condenses_once() -> None:
    replies = [called(("look", {"x": LONG})), ContextTooLong("too long"), said("gist"), said("done")]
    with ScriptedModel(replies) as model:
        bench = Bench(model)
        assert (await bench.advance()).text == "done"
    assert "gist" in json.dumps(model.requests[3].messages)


async def test_refused_again_is_a_clear_failure() -> None:
    replies = [
        called(("look", {"x": LONG})),
        ContextTooLong("8192 tokens"),
        said("gist"),
        ContextTooLong("8192 tokens"),
    ]
    with ScriptedModel(replies) as model:
        outcome = await Bench(model).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert outcome.error == "context too long: 8192 tokens"


async def test_the_provider_is_obeyed_once_even_if_more_could_be_condensed() -> None:
    first, second = called(("look", {"x": LONG}), ("look", {"x": LONG})), called(("look", {"x": 1}))
    refused = ContextTooLong("8192 tokens")
    with ScriptedModel([first, second, refused, said("gist"), refused], window=10_000) as model:
        bench = Bench(model)
        assert (await bench.advance()).state is RunState.FAILED
    assert json.dumps(model.requests[4].messages).count("look did 1") == 1  # the newest answer was kept whole


async def test_nothing_to_condense_is_a_clear_failure() -> None:
    with ScriptedModel([ContextTooLong("8192 tokens")]) as model:
        outcome = await Bench(model).advance()
    assert outcome.error == "context too long: 8192 tokens"


@pytest.mark.parametrize("reply", [said("  "), said("<think>hm</think>"), ContextTooLong("even that")])
async def test_without_a_usable_summary_an_excerpt_is_used(reply: object) -> None:
    replies = [called(("look", {"x": LONG})), reply, said("done")]
    with ScriptedModel(replies, window=3_000) as model:  # type: ignore[arg-type]
        bench = Bench(model)
        assert (await bench.advance()).text == "done"
    summary = next(step for step in bench.run.steps if isinstance(step, SummaryStep))
    assert "THE TASK: Do it." in summary.text
    assert "CALL look" in summary.text


async def test_the_summary_call_is_retried_like_any_other() -> None:
    replies = [called(("look", {"x": LONG})), ModelUnavailable("down"), said("gist"), said("done")]
    with ScriptedModel(replies, window=3_000) as model:
        bench = Bench(model)
        assert (await bench.advance()).text == "done"
    assert len(bench.world.waits) == 1


async def test_summaries_are_no_iterations_but_count_as_tokens() -> None:
    policy = Policy(iterations=2, deadline_s=600, token_budget=10_000)
    replies = [called(("look", {"x": LONG}), tokens=(50, 10)), said("gist", tokens=(9_930, 5)), said("never")]
    model = ScriptedModel(replies, window=3_000)
    outcome = await Bench(model, policy=policy).advance()
    assert outcome.exit_reason is ExitReason.TOKEN_BUDGET
    assert len(model.requests) == 2
