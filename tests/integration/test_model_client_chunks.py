"""Field cases L-01, L-03 and the text side of the stream: what a provider sends beside a plain answer."""

from __future__ import annotations

import json

import pytest

from hermes_tasks.contracts.errors import BadModelAnswer, ModelRefused, ModelUnavailable
from hermes_tasks.demo.reply import ABSENT, EMPTY_CHOICES, NO_CHOICES, Call, Reply
from tests.integration.model_clients import ask_once

pytestmark = pytest.mark.anyio

TEXT = "Seven words are enough for two chunks."
COUNTED = {"input_tokens", "output_tokens", "calls"}
USAGE_ONLY = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}


async def test_a_plain_answer_arrives_in_pieces_and_whole() -> None:
    asked = await ask_once([Reply(text=TEXT, usage=(11, 4))])
    assert asked.step.text == TEXT == "".join(asked.pieces)
    assert len(asked.pieces) > 1
    assert (asked.step.finish, asked.step.model, asked.step.calls) == ("stop", "default", ())
    assert asked.step.usage.model_dump(include=COUNTED) == {"input_tokens": 11, "output_tokens": 4, "calls": 1}


@pytest.mark.parametrize(
    "insert",
    [
        pytest.param([(0, EMPTY_CHOICES)], id="first"),
        pytest.param([(2, EMPTY_CHOICES)], id="middle"),
        pytest.param([(-1, USAGE_ONLY)], id="last with usage"),
        pytest.param([(-1, EMPTY_CHOICES)], id="last without usage"),
        pytest.param([(0, NO_CHOICES), (2, {**NO_CHOICES, "choices": None}), (-1, NO_CHOICES)], id="missing"),
        pytest.param([(1, {"choices": [None]}), (2, {"choices": "none"}), (3, {"choices": [7]})], id="of another type"),
    ],
)
async def test_chunks_without_choices_are_ignored_apart_from_usage(insert) -> None:
    wants = {"input_tokens": 7, "output_tokens": 3, "calls": 1}
    usage = None if insert[0][1] is USAGE_ONLY else (7, 3)
    asked = await ask_once([Reply(text=TEXT, usage=usage, insert=insert)])
    assert asked.step.text == TEXT
    assert asked.step.usage.model_dump(include=COUNTED) == wants


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text=TEXT, usage=(7, 3), usage_everywhere=True),
        Reply(text=TEXT, usage=(7, 3), insert=[(-1, USAGE_ONLY), (-1, USAGE_ONLY)]),
        Reply(text=TEXT, usage=(7, 3), insert=[(-1, {"choices": [], "usage": {"prompt_tokens": 0}})]),
        Reply(text=TEXT, usage=(7, 3), insert=[(-1, {"choices": [], "usage": {"prompt_tokens": "many"}})]),
        Reply(text=TEXT, usage=(7, 3), insert=[(-1, {"choices": [], "usage": None})]),
    ],
    ids=["running sum in every chunk", "repeated", "zeros at the end", "nonsense at the end", "null at the end"],
)
async def test_usage_is_counted_once(reply) -> None:
    asked = await ask_once([reply])
    assert asked.step.usage.model_dump(include=COUNTED) == {"input_tokens": 7, "output_tokens": 3, "calls": 1}


@pytest.mark.parametrize("finish", ["stop", "end_turn", None, ABSENT, "tool_calls", "TOOL_CALLS", "length"])
async def test_complete_calls_count_whatever_the_finish_reason(finish) -> None:
    asked = await ask_once([Reply(calls=[Call("echo", '{"text": "hi"}'), Call("list")], finish=finish)])
    assert [call.name for call in asked.step.calls] == ["echo", "list"]
    assert asked.step.finish == "tool_calls"


async def test_finish_tool_calls_without_calls_is_a_text_answer() -> None:
    asked = await ask_once([Reply(text=TEXT, finish="tool_calls")])
    assert (asked.step.text, asked.step.finish, asked.step.calls) == (TEXT, "stop", ())


@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS"])
async def test_a_cut_text_says_so(finish) -> None:
    asked = await ask_once([Reply(text=TEXT, finish=finish)])
    assert (asked.step.text, asked.step.finish) == (TEXT, "length")


async def test_an_answer_cut_inside_a_call_stays_cut() -> None:
    asked = await ask_once([Reply(calls=[Call("echo"), Call("write", '{"text": "half a sen')], finish="length")])
    assert asked.step.finish == "length"
    assert [call.name for call in asked.step.calls] == ["echo", "write"]


@pytest.mark.parametrize("finish", [None, ABSENT])
@pytest.mark.parametrize("done", [True, False])
async def test_an_orderly_end_without_a_reason_is_an_answer(finish, done) -> None:
    asked = await ask_once([Reply(text=TEXT, finish=finish, done=done, usage=None)])
    assert (asked.step.text, asked.step.finish) == (TEXT, "stop")


async def test_reasoning_is_not_text() -> None:
    asked = await ask_once([Reply(reasoning="Let me think.", text=TEXT)])
    assert asked.step.text == TEXT
    parts = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "reasoning", "text": "Hm"},
        {"type": "text", "text": "Yes."},
    ]
    asked = await ask_once([Reply(deltas=[{"reasoning": "Hm."}, {"content": parts}])])
    assert asked.step.text == "Yes."


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        Reply(text="", content_null=True),
        Reply(reasoning="only thoughts"),
        Reply(content_null=True, reasoning="only thoughts"),
    ],
)
async def test_an_answer_with_nothing_in_it_is_an_empty_step(reply) -> None:
    asked = await ask_once([reply])
    assert (asked.step.text, asked.step.calls, asked.step.finish, asked.pieces) == ("", (), "stop", [])


async def test_a_refusal_in_words_is_the_text() -> None:
    asked = await ask_once([Reply(deltas=[{"content": None, "refusal": "I will not."}])])
    assert asked.step.text == "I will not."


async def test_the_text_is_passed_on_as_it_was_cut() -> None:
    pieces = ["Hello <mem", "ory-context>\nx\n</memory-", "context>\n\n", "  end\r\n"]
    asked = await ask_once([Reply(text=pieces)])
    assert asked.pieces == pieces
    assert asked.step.text == "".join(pieces)


async def test_characters_cut_in_half_are_joined_or_marked() -> None:
    asked = await ask_once([Reply(insert=[(1, _raw_delta(r"smile \ud83d")), (2, _raw_delta(r"\ude00!"))])])
    assert asked.step.text == "smile 😀!" == "".join(asked.pieces)
    asked = await ask_once([Reply(insert=[(1, _raw_delta(r"lost \ud83d")), (2, _raw_delta("half"))])])
    assert asked.step.text == "lost \ufffdhalf"
    asked = await ask_once([Reply(insert=[(1, _raw_delta(r"end \ud83d"))])])
    assert asked.step.text == "end \ufffd"
    asked = await ask_once([Reply(insert=[(1, b'data: {"choices": [{"delta": {"content": "caf\xc3"}}]}\n\n')])])
    assert asked.step.text == "caf\ufffd"


async def test_a_completion_that_is_not_streamed_is_read_all_the_same() -> None:
    whole = Reply(text=TEXT, usage=(7, 3)).completion({"id": "chatcmpl-1", "model": "m"})
    asked = await ask_once([Reply(body=whole)])
    assert (asked.step.text, asked.pieces, asked.step.usage.input_tokens) == (TEXT, [TEXT], 7)
    calls = Reply(calls=[Call("echo", {"text": "hi"})]).completion({"id": "chatcmpl-1", "model": "m"})
    asked = await ask_once([Reply(body=calls)])
    assert [json.loads(call.arguments) for call in asked.step.calls] == [{"text": "hi"}]


async def test_a_message_repeated_at_the_end_is_not_counted_twice() -> None:
    last = {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}
    asked = await ask_once([Reply(text=TEXT, insert=[(-1, last)])])
    assert asked.step.text == TEXT
    asked = await ask_once([Reply(finish=ABSENT, insert=[(-1, last)])])
    assert asked.step.text == TEXT


@pytest.mark.parametrize(
    "noise",
    [
        b": keep-alive\n\n",
        b"event: ping\n\n",
        b"data:\n\n",
        b"id: 5\nretry: 100\n\n",
        b'data: {"choices":\r\ndata: []}\r\n\r\n',
        b'data:{"choices": []}\n',
    ],
    ids=["comment", "event only", "empty data", "id and retry", "event over two lines", "no blank line"],
)
async def test_noise_between_events_is_harmless(noise) -> None:
    asked = await ask_once([Reply(text=TEXT, insert=[(0, noise), (2, noise), (-1, noise)])])
    assert asked.step.text == TEXT


async def test_a_malformed_chunk_is_never_half_an_answer() -> None:
    with pytest.raises(ModelUnavailable, match="not JSON"):
        await ask_once([Reply(text=TEXT, malformed_at=2)])
    with pytest.raises(BadModelAnswer, match="not JSON"):
        await ask_once([Reply(text=TEXT, malformed_at=0)])
    with pytest.raises(ModelUnavailable, match="not a JSON object"):
        await ask_once([Reply(text=TEXT, insert=[(2, b"data: [1, 2]\n\n")])])


async def test_a_stream_that_ends_inside_an_event_is_broken() -> None:
    half = [(-1, b'data: {"choices": [{"delta": {"con')]
    with pytest.raises(ModelUnavailable, match="not JSON"):
        await ask_once([Reply(text=TEXT, finish=ABSENT, usage=None, done=False, insert=half)])
    asked = await ask_once([Reply(text=TEXT, usage=None, done=False, insert=half)])
    assert asked.step.text == TEXT
    last = [(-1, b'data: {"choices": [{"delta": {"content": " End"}}]}')]
    asked = await ask_once([Reply(text=TEXT, finish=ABSENT, usage=None, done=False, insert=last)])
    assert asked.step.text == TEXT + " End"


async def test_a_malformed_chunk_after_the_finish_reason_costs_nothing() -> None:
    asked = await ask_once([Reply(text=TEXT, insert=[(-1, b"data: {half\n\n")])])
    assert asked.step.text == TEXT


async def test_the_providers_filter_and_its_word_for_failure() -> None:
    with pytest.raises(ModelRefused, match="content filter"):
        await ask_once([Reply(finish="content_filter")])
    asked = await ask_once([Reply(text=TEXT, finish="content_filter")])
    assert asked.step.text == TEXT
    with pytest.raises(ModelUnavailable, match="'error'"):
        await ask_once([Reply(text=TEXT, finish="error")])


def _raw_delta(escaped: str) -> bytes:
    return b'data: {"choices": [{"delta": {"content": "' + escaped.encode() + b'"}}]}\n\n'
