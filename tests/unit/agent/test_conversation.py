"""From stored turns to the messages before the next one: valid for every provider, and the bytes that turns saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_tasks.agent.conversation import conversation
from hermes_tasks.agent.transcript import INTERRUPTED, NOT_BEGUN, SUMMARY_HEAD, SUMMARY_NOTE, messages
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolCall, ToolStep
from hermes_tasks.contracts.strategy import Plan

POLICY = Policy(iterations=9, deadline_s=60)


def turn(text: str, *steps: AnyStep, state: RunState = RunState.COMPLETED, opening: str = "") -> dict[str, Any]:
    """As the store keeps it."""
    stored = [step.model_dump_json() for step in steps]
    return {"user": text, "opening": opening or f"{text} [Monday]", "state": str(state), "steps": stored}


def asking(*names: str, text: str = "", ids: Sequence[str] = ()) -> ModelStep:
    chosen = ids or [f"call_{place}" for place in range(len(names))]
    calls = tuple(ToolCall(id=one, name=name, arguments="{}") for one, name in zip(chosen, names, strict=True))
    return ModelStep(text=text, calls=calls, finish="tool_calls")


def done(call: int, content: str) -> ToolStep:
    return ToolStep(call=call, name="look", content=content)


def answer(text: str) -> ModelStep:
    return ModelStep(text=text)


def assert_valid(said: Sequence[Message]) -> None:
    """What the strictest provider wants: each call with its one result behind it, and roles in turn."""
    open_ids: list[str] = []
    seen: set[str] = set()
    last = ""
    for message in said:
        role = str(message["role"])
        if role == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
        else:
            assert not open_ids, "a call without a result"
            assert role != last, f"two messages of the {role} in a row"
            open_ids = [call["id"] for call in message.get("tool_calls", ())]
            assert seen.isdisjoint(open_ids)
            seen.update(open_ids)
        last = role
    assert not open_ids
    assert last == "assistant"


def test_turns_alternate_and_the_models_copy_of_a_message_is_used() -> None:
    said = conversation([turn("one", answer("first")), turn("two", answer("second"))])
    assert said == (
        {"role": "user", "content": "one [Monday]"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "two [Monday]"},
        {"role": "assistant", "content": "second"},
    )


def test_a_turn_that_never_began_to_ask_shows_the_users_own_words() -> None:
    stored = {"user": "one", "opening": "", "state": "cancelled", "steps": []}
    first, note = conversation([stored])
    assert first["content"] == "one"
    assert note == {
        "role": "assistant",
        "content": "[This turn was not completed: cancelled. What was said and done until then stands above.]",
    }


def test_no_turns_are_no_messages() -> None:
    assert conversation([]) == ()


def test_the_turn_itself_saw_the_same_bytes() -> None:
    before = [turn("one", asking("look", "look"), done(1, "b"), done(0, "a"), answer("first"))]
    steps = [asking("look", ids=["call_0"]), done(0, "c"), answer("second")]
    history = conversation(before)
    plan = Plan("", (*history, {"role": "user", "content": "two [Monday]"}), POLICY, "m")
    in_the_turn = messages(plan, steps)
    assert list(conversation([*before, turn("two", *steps)])) == in_the_turn
    assert_valid(in_the_turn)


@pytest.mark.parametrize("state", [state for state in RunState if state.terminal and state is not RunState.COMPLETED])
@pytest.mark.parametrize(
    "steps",
    [
        (),
        (answer("half an answer"),),
        (answer(" "),),
        (asking("look"), done(0, "seen")),
        (asking("look", "look"), StartedStep(calls=(0, 1)), done(0, "seen")),
        (asking("delegate_task", text="I ask"), StartedStep(calls=(0,), batch="b")),
        (asking("look", text="one more"),),
        (SummaryStep(text="so far", upto=0),),
        (asking("look"), done(0, "seen"), SummaryStep(text="so far", upto=2, history=True)),
    ],
)
def test_a_turn_broken_off_anywhere_can_be_continued(state: RunState, steps: tuple[AnyStep, ...]) -> None:
    broken = turn("two", *steps, state=state)
    said = conversation([turn("one", answer("first")), broken, turn("go on", answer("third"))])
    assert_valid(said)
    assert f"not completed: {state}" in str(said[-3]["content"])


def test_results_say_what_became_of_each_call() -> None:
    steps = (asking("look", "look", "look"), StartedStep(calls=(0, 1)), done(0, "seen"))
    said = conversation([turn("one", *steps, state=RunState.CANCELLED)])
    assert [message["content"] for message in said if message["role"] == "tool"] == ["seen", INTERRUPTED, NOT_BEGUN]


def test_what_an_exhausted_turn_said_stays_and_the_note_is_part_of_it() -> None:
    said = conversation([turn("one", asking("look"), done(0, "seen"), answer("so far"), state=RunState.EXHAUSTED)])
    assert str(said[-1]["content"]).startswith("so far\n\n[This turn was not completed: exhausted.")


def test_a_summary_stands_for_the_first_steps_of_its_turn() -> None:
    steps = (asking("look"), done(0, "left out"), SummaryStep(text="it is blue", upto=2), answer("blue"))
    said = conversation([turn("one", answer("first")), turn("two", *steps)])
    assert [message["content"] for message in said] == [
        "one [Monday]", "first", "two [Monday]", SUMMARY_HEAD + "it is blue", SUMMARY_NOTE, "blue",
    ]  # fmt: skip
    assert "left out" not in json.dumps(said)


def test_a_summary_of_the_conversation_stands_for_the_turns_before_it_too() -> None:
    steps = (SummaryStep(text="all of it", history=True), answer("on"))
    said = conversation([turn("one", answer("first")), turn("two", *steps), turn("three", answer("third"))])
    assert [message["content"] for message in said] == [
        "two [Monday]", SUMMARY_HEAD + "all of it", SUMMARY_NOTE, "on", "three [Monday]", "third",
    ]  # fmt: skip
    assert_valid(said)


def test_the_last_summary_of_a_turn_counts() -> None:
    steps = (
        asking("look"), done(0, "a"), SummaryStep(text="older", upto=2), asking("look"), done(0, "b"),
        SummaryStep(text="newer", upto=5), answer("done"),
    )  # fmt: skip
    said = conversation([turn("one", *steps)])
    assert [message["content"] for message in said][1] == SUMMARY_HEAD + "newer"
    assert "older" not in json.dumps(said)


def test_ids_that_a_provider_gives_twice_become_different() -> None:
    twice = turn("one", asking("look", "look", ids=["x", "x"]), done(0, "a"), done(1, "b"), answer("first"))
    again = turn("two", asking("look", ids=["x"]), done(0, "c"), answer("second"))
    said = conversation([twice, again])
    assert_valid(said)
    assert conversation([twice, again]) == said, "the same bytes anywhere"


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    stored = turn("one", answer("first"))
    stored["steps"] = [json.dumps({**json.loads(stored["steps"][0]), "later": 1})]
    assert conversation([{**stored, "later": 1}])[1]["content"] == "first"
