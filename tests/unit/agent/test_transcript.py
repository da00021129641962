"""Whatever was stored, a provider accepts the conversation made from it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.agent.partial import clip, partial_text
from hermes_tasks.agent.transcript import EMPTY_NOTE, INTERRUPTED, NOT_BEGUN, SUMMARY_NOTE, messages, own_messages
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolCall, ToolStep
from tests.unit.agent.doubles import plan_of

POLICY = Policy(iterations=10, deadline_s=600)
PLAN = plan_of(POLICY)


def answer(*calls: tuple[str, str], text: str = "") -> ModelStep:
    return ModelStep(text=text, calls=tuple(ToolCall(id=id_, name=name, arguments="{}") for id_, name in calls))


def result(call: int, content: str) -> ToolStep:
    return ToolStep(call=call, name="send", content=content)


def check(said: list[Any]) -> None:
    """What the strictest provider demands."""
    open_ids: list[str] = []
    seen: set[str] = set()
    for before, message in zip([None, *said], said, strict=False):
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0), "results in call order, one each"
            assert isinstance(message["content"], str)
            continue
        assert not open_ids, "a call without a result"
        assert before is None or before["role"] != message["role"] or message["role"] == "assistant"
        for call in message.get("tool_calls") or ():
            assert call["id"]
            assert call["id"] not in seen
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            seen.add(call["id"])
            open_ids.append(call["id"])
        assert message.get("content") or message.get("tool_calls"), "an empty message"
    assert not open_ids


def test_results_stand_in_call_order_whatever_finished_first() -> None:
    steps = [answer(("a", "send"), ("b", "send")), StartedStep(calls=(0, 1)), result(1, "second"), result(0, "first")]
    said = messages(PLAN, steps)
    assert [message["content"] for message in said[-2:]] == ["first", "second"]


def test_a_stop_in_the_middle_leaves_a_conversation_that_goes_on() -> None:
    steps = [
        answer(("a", "send"), ("b", "send"), ("c", "send"), ("d", "delegate_task")),
        StartedStep(calls=(0, 1)),
        StartedStep(calls=(3,), batch="b1"),
        result(0, "sent"),
    ]
    for said in (messages(PLAN, steps), own_messages(PLAN, steps)):
        assert [m["content"] for m in said if m["role"] == "tool"] == ["sent", INTERRUPTED, NOT_BEGUN, INTERRUPTED]
    check(messages(PLAN, steps))


def test_made_up_ids_are_stable_and_unique() -> None:
    steps: list[AnyStep] = [answer(("", "send"), ("x", "send"), ("x", "send"))]
    steps += [result(n, "ok") for n in range(3)]
    steps += [answer(("x", "send")), result(0, "ok")]
    said = messages(PLAN, steps)
    check(said)
    assert said == messages(PLAN, steps)
    assert said[: len(messages(PLAN, steps[:4]))] == messages(PLAN, steps[:4])
    assert said[2]["tool_calls"][1]["id"] == "x"


def test_ids_of_the_conversation_before_are_not_used_again() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "send", "arguments": "{}"}}
    before = (
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": "ok"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "again"},
    )
    check(messages(plan_of(POLICY, messages=before), [answer(("x", "send")), result(0, "ok")]))


def test_names_and_arguments_no_provider_takes_back_are_made_harmless() -> None:
    step = ModelStep(
        calls=(ToolCall(id="a", name="search the moon!", arguments='{"a": 1'), ToolCall(id="b", name="", arguments=""))
    )
    call, other = messages(PLAN, [step])[2]["tool_calls"]
    assert call["function"] == {"name": "search_the_moon_", "arguments": "{}"}
    assert other["function"] == {"name": "unnamed", "arguments": "{}"}


def test_an_empty_answer_becomes_a_reminder() -> None:
    said = messages(PLAN, [answer()])
    assert [m["role"] for m in said] == ["system", "user"]
    assert said[-1]["content"] == f"Do it.\n\n{EMPTY_NOTE}"
    assert own_messages(PLAN, [answer()]) == []


def test_a_reminder_joins_a_message_with_an_image() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:"}}]
    said = messages(plan_of(POLICY, messages=({"role": "user", "content": parts},)), [answer()])
    assert said[-1]["content"] == [*parts, {"type": "text", "text": EMPTY_NOTE}]


def test_a_summary_replaces_what_it_covers_and_nothing_else() -> None:
    old = [answer(("a", "send")), result(0, "old result")]
    kept = [answer(("b", "send")), result(0, "kept result")]
    later = [answer(("a", "send")), result(0, "later result")]
    plan = plan_of(
        POLICY, messages=({"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, *PLAN.messages)
    )
    said = messages(plan, [*old, *kept, SummaryStep(text="the gist", upto=2), *later])
    check(said)
    text = json.dumps(said)
    assert "old result" not in text
    assert "the gist" in text
    assert SUMMARY_NOTE in text
    assert "ho" in text
    assert [m["content"] for m in said if m["role"] == "tool"] == ["kept result", "later result"]
    without = messages(plan, [*old, *kept, SummaryStep(text="the gist", upto=2, history=True), *later])
    check(without)
    assert [m["content"] for m in without[:2]] == ["You work.", "Do it."]
    ids = [m["tool_call_id"] for m in said if m["role"] == "tool"]
    assert ids == [m["tool_call_id"] for m in without if m["role"] == "tool"]
    assert len(own_messages(plan, [*old, *kept, SummaryStep(text="the gist", upto=2), *later])) == 6


CALLS = st.lists(st.tuples(st.sampled_from(["", "a", "b", " "]), st.sampled_from(["send", "x y", ""])), max_size=4)
GROUP = st.tuples(CALLS, st.sampled_from(["", " \n", "text", "<think>x</think>"]), st.randoms(use_true_random=False))


@given(st.lists(GROUP, max_size=5), st.booleans(), st.booleans())
def test_any_stored_steps_give_a_valid_conversation(groups: list[Any], summary: bool, closing: bool) -> None:
    steps: list[AnyStep] = []
    for calls, text, chance in groups:
        steps.append(answer(*calls, text=text))
        numbers = list(range(len(calls)))
        chance.shuffle(numbers)
        begun = numbers[: chance.randint(0, len(numbers))]
        if begun:
            steps.append(StartedStep(calls=tuple(begun)))
        steps.extend(result(n, "ok") for n in begun[: chance.randint(0, len(begun))])
    if summary:
        steps.append(SummaryStep(text="gist", upto=len(steps)))
    check(messages(PLAN, steps, closing=closing))


def test_a_partial_text_is_bounded_and_newest_first_kept() -> None:
    steps: list[AnyStep] = []
    for n in range(100):
        steps += [
            answer(("", "send"), text=f"step {n}"),
            ToolStep(call=0, name="send", content=f"result {n} " + "x" * 5_000),
        ]
    text = partial_text(steps)
    assert len(text) < 9_000
    assert text.startswith("step 99")
    assert "result 99 " in text
    assert "result 0 " not in text
    assert "earlier results left out" in text
    assert text.index("result 98 ") < text.index("result 99 ")
    assert partial_text([]) == ""
    assert partial_text(steps, "half an ans").startswith("half an ans")


def test_a_partial_text_has_no_secrets() -> None:
    secret = "sk_live_" + "4f9a8b7c6d5e4f3a"
    steps = [answer(("", "send"), text=f"The key is {secret}."), result(0, f"sent {secret}")]
    assert secret not in partial_text(steps)
    assert secret not in partial_text(steps, f"I use {secret}")


def test_clip_keeps_both_ends() -> None:
    assert clip("abc", 3) == "abc"
    clipped = clip("a" * 500 + "b" * 500, 100)
    assert clipped.startswith("a" * 75)
    assert clipped.endswith("b" * 25)
    assert "900 characters left out" in clipped
