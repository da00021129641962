"""Field case L-02: tool calls of every loose shape become well-formed calls, none lost and none merged."""

from __future__ import annotations

import json

import pytest

from hermes_tasks.demo.reply import ABSENT, Call, Reply
from tests.integration.model_clients import ask_once

pytestmark = pytest.mark.anyio

ARGS = '{"path": "a.txt", "text": "one two three"}'


def fragment(**fields):
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"tool_calls": [{**fields, "function": function}]}


async def calls_of(*deltas, **fields):
    asked = await ask_once([Reply(deltas=deltas, **fields)])
    return asked.step.calls


async def test_well_formed_calls_arrive_as_they_were_sent() -> None:
    asked = await ask_once(
        [Reply(text="I will.", calls=[Call("write", ARGS, fragments=5), Call("read", '{"path": "b"}')])]
    )
    write, read = asked.step.calls
    assert (write.name, write.arguments, write.id) == ("write", ARGS, "call_0_0")
    assert (read.name, read.arguments, read.id) == ("read", '{"path": "b"}', "call_0_1")
    assert asked.step.text == "I will."


async def test_calls_whose_fragments_come_interleaved() -> None:
    found = await calls_of(
        fragment(index=0, id="a", name="one", arguments='{"x"'),
        fragment(index=1, id="b", name="two", arguments='{"y"'),
        fragment(index=0, arguments=": 1}"),
        fragment(index=1, arguments=": 2}"),
    )
    assert [(call.id, call.arguments) for call in found] == [("a", '{"x": 1}'), ("b", '{"y": 2}')]


async def test_a_arguments_as_an_object() -> None:
    (call,) = (await ask_once([Reply(calls=[Call("write", {"path": "ä.txt"})])])).step.calls
    assert json.loads(call.arguments) == {"path": "ä.txt"}


@pytest.mark.parametrize("missing", [ABSENT, "", None])
async def test_b_missing_ids_get_stable_ones(missing) -> None:
    reply = Reply(calls=[Call("one", id=missing), Call("two", id=missing), Call("three", id="call_1")])
    first, second = [(await ask_once([reply])).step.calls for _ in range(2)]
    assert [call.name for call in first] == ["one", "two", "three"]
    assert len({call.id for call in first}) == 3
    assert all(call.id for call in first)
    assert first == second


async def test_b_ids_given_twice_are_told_apart() -> None:
    found = (await ask_once([Reply(calls=[Call("one", id="x"), Call("two", id="x")])])).step.calls
    assert [call.name for call in found] == ["one", "two"]
    assert len({call.id for call in found}) == 2


@pytest.mark.parametrize("ident", ["own", ABSENT])
@pytest.mark.parametrize("index", [ABSENT, None])
async def test_c_calls_without_an_index_are_two_calls(ident, index) -> None:
    ids = ("a", "b") if ident == "own" else (ABSENT, ABSENT)
    calls = [Call("one", '{"x": 1, "y": 2}', id=ids[0], index=index), Call("two", ARGS, id=ids[1], index=index)]
    found = (await ask_once([Reply(calls=calls)])).step.calls
    assert [(call.name, call.arguments) for call in found] == [("one", '{"x": 1, "y": 2}'), ("two", ARGS)]


async def test_c_the_same_tool_twice_without_index_and_id() -> None:
    calls = [
        Call("read", '{"path": "a"}', id=ABSENT, index=ABSENT),
        Call("read", '{"path": "b"}', id=ABSENT, index=ABSENT),
    ]
    found = (await ask_once([Reply(calls=calls)])).step.calls
    assert [call.arguments for call in found] == ['{"path": "a"}', '{"path": "b"}']


async def test_c_every_call_numbered_zero() -> None:
    calls = [Call("read", '{"path": "a"}', index=0), Call("read", '{"path": "b"}', index=0), Call("list", "", index=0)]
    found = (await ask_once([Reply(calls=calls)])).step.calls
    assert [(call.name, call.arguments) for call in found] == [
        ("read", '{"path": "a"}'),
        ("read", '{"path": "b"}'),
        ("list", ""),
    ]


async def test_c_one_id_for_two_different_tools_without_an_index() -> None:
    found = await calls_of(
        fragment(id="x", name="one", arguments='{"x": 1}'), fragment(id="x", name="two", arguments='{"y": 2}')
    )
    assert [(call.name, call.arguments) for call in found] == [("one", '{"x": 1}'), ("two", '{"y": 2}')]


async def test_c_indexes_as_text() -> None:
    found = await calls_of(
        fragment(index="0", id="a", name="one", arguments="{"),
        fragment(index="0", arguments="}"),
        fragment(index="1", id="b", name="two", arguments="{}"),
    )
    assert [(call.name, call.arguments) for call in found] == [("one", "{}"), ("two", "{}")]


@pytest.mark.parametrize("index", [{"index": 0}, {}], ids=["at one index", "without an index"])
async def test_d_fragments_with_three_ids_are_one_call(index) -> None:
    found = await calls_of(
        fragment(**index, id="a", name="write", arguments='{"path":'),
        fragment(**index, id="b", name="", arguments=' "a.txt"'),
        fragment(**index, id="c", name="", arguments="}"),
    )
    assert [(call.id, call.name, call.arguments) for call in found] == [("a", "write", '{"path": "a.txt"}')]


async def test_d_a_name_repeated_in_each_fragment_is_one_call() -> None:
    for head in ({"index": 0}, {"index": 0, "id": "a"}, {"id": "a"}, {}):
        found = await calls_of(
            fragment(**head, name="write", arguments='{"path":'), fragment(**head, name="write", arguments=' "a"}')
        )
        assert [(call.name, call.arguments) for call in found] == [("write", '{"path": "a"}')], head


async def test_d_the_first_fragment_alone_lacks_the_index() -> None:
    found = await calls_of(fragment(id="a", name="write", arguments="{"), fragment(index=0, arguments='"x": 1}'))
    assert [(call.id, call.arguments) for call in found] == [("a", '{"x": 1}')]


@pytest.mark.parametrize("arguments", ["", None])
async def test_e_no_arguments_at_all(arguments) -> None:
    found = (await ask_once([Reply(calls=[Call("list", arguments), Call("other", "null")])])).step.calls
    assert [(call.name, call.arguments) for call in found] == [("list", ""), ("other", "null")]


async def test_f_content_null_shows_nothing() -> None:
    asked = await ask_once([Reply(calls=[Call("echo")], content_null=True)])
    assert (asked.step.text, asked.pieces) == ("", [])
    assert [call.name for call in asked.step.calls] == ["echo"]


async def test_a_call_without_a_name_is_kept_when_it_has_arguments() -> None:
    found = await calls_of(
        fragment(index=0, name="echo", arguments="{}"), fragment(index=1, name="", arguments='{"x": 1}')
    )
    assert [(call.name, call.arguments) for call in found] == [("echo", "{}"), ("", '{"x": 1}')]


async def test_entries_with_nothing_in_them_are_no_calls() -> None:
    asked = await ask_once(
        [
            Reply(
                text="Fine.",
                deltas=[fragment(index=0, id="ghost"), fragment(index=1, name=""), {"tool_calls": [None, 7]}],
            )
        ]
    )
    assert (asked.step.calls, asked.step.finish, asked.step.text) == ((), "stop", "Fine.")
    assert not await calls_of({"tool_calls": None}, {"tool_calls": "none"})


async def test_a_single_call_that_is_not_in_a_list_or_has_no_function_object() -> None:
    found = await calls_of({"tool_calls": {"index": 0, "id": "a", "name": "echo", "arguments": {"x": 1}}})
    assert [(call.id, call.name, json.loads(call.arguments)) for call in found] == [("a", "echo", {"x": 1})]


async def test_arguments_that_do_not_parse_are_handed_on_as_they_are() -> None:
    found = (await ask_once([Reply(calls=[Call("echo", '{"a": 1'), Call("echo", "[1,2]")])])).step.calls
    assert [call.arguments for call in found] == ['{"a": 1', "[1,2]"]
