from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.registry import Registry, Resolved


class Double:
    """A tool that only has a name; it fails the test when it is run."""

    idempotent = True

    def __init__(self, name: str, toolset: str = "file") -> None:
        self.name, self.toolset = name, toolset

    def schema(self) -> Mapping[str, Any]:
        return {"name": self.name, "parameters": {"properties": {"path": {}, "limit": {}}}}

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        raise AssertionError("a registry runs nothing")


def policy(*toolsets: str) -> Policy:
    return Policy(iterations=1, deadline_s=1, toolsets=toolsets)


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments)


REGISTRY = Registry(
    [Double("read_file"), Double("write_file"), Double("memory", "memory"), Double("delegate_task", "delegation")]
)
CHILD = policy("file", "memory").model_copy(update={"refusals": {"delegation": "delegation depth reached"}})


def refusal(name: str, arguments: str = "{}") -> str:
    output = REGISTRY.resolve(call(name, arguments), CHILD)
    assert isinstance(output, ToolOutput)
    assert output.error
    return output.content


def test_offered_are_the_tools_of_the_policy_in_their_order() -> None:
    assert [schema["name"] for schema in REGISTRY.offered(CHILD)] == ["read_file", "write_file", "memory"]
    assert REGISTRY.offered(policy()) == ()


def test_a_good_call_resolves_to_tool_and_arguments() -> None:
    resolved = REGISTRY.resolve(call("read_file", '{"path": "a", "limit": 3}'), CHILD)
    assert isinstance(resolved, Resolved)
    assert resolved.tool.name == "read_file"
    assert resolved.args == {"path": "a", "limit": 3}


@pytest.mark.parametrize("arguments", ["", "  ", "null", "{}"])
def test_a_call_without_arguments_has_none(arguments: str) -> None:
    resolved = REGISTRY.resolve(call("read_file", arguments), CHILD)
    assert isinstance(resolved, Resolved)
    assert resolved.args == {}


def test_an_invented_tool_gets_the_valid_names() -> None:
    text = refusal("search_the_moon")
    assert "there is no tool 'search_the_moon'" in text
    assert "Available: read_file, write_file, memory" in text
    assert "delegate_task" not in text


@pytest.mark.parametrize(
    ("name", "meant"), [("Memory", "memory"), ("readfile", "read_file"), ("READ_FILE", "read_file")]
)
def test_a_near_miss_is_named_and_not_run(name: str, meant: str) -> None:
    assert f"Did you mean {meant}?" in refusal(name)


def test_a_tool_outside_the_policy_is_refused_with_the_reason() -> None:
    assert refusal("delegate_task").startswith(
        "delegate_task is not available to this run and was not run: delegation depth reached. Available:"
    )
    output = REGISTRY.resolve(call("memory"), policy("file"))
    assert isinstance(output, ToolOutput)
    assert output.content == "memory is not available to this run and was not run. Available: read_file, write_file"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"a": 1', "not JSON"),
        ("[1,2]", "one JSON object"),
        ('"text"', "one JSON object"),
        ("{'path': 'a'}", "not JSON"),
        ('{"path": "a"} {"path": "b"}', "not JSON"),
        ('{"path": "a", "path": "b"}', "'path' is given twice"),
        ('{"limit": NaN}', "NaN is no JSON number"),
        ('{"path": "\\ud800"}', "surrogate"),
        ('{"a":' * 100_000, "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("1" * 5000, "cannot be read"),
    ],
)
def test_arguments_that_do_not_parse_say_what_is_wrong_and_name_the_fields(arguments: str, said: str) -> None:
    text = refusal("write_file", arguments)
    assert text.startswith("write_file was not run: ")
    assert said in text
    assert text.endswith("Its fields: path, limit")


@given(name=st.text(max_size=30), arguments=st.text(max_size=40))
def test_any_call_gets_an_answer(name: str, arguments: str) -> None:
    resolved = REGISTRY.resolve(call(name, arguments), CHILD)
    assert isinstance(resolved, ToolOutput | Resolved)
    if isinstance(resolved, Resolved):
        assert resolved.tool.name == name


def test_an_unavailable_tool_is_not_offered_yet_answers() -> None:
    tool = Double("web_search", "web")
    tool.available = False
    registry = Registry([Double("web_fetch", "web"), tool])
    assert [schema["name"] for schema in registry.offered(policy("web"))] == ["web_fetch"]
    assert isinstance(registry.resolve(call("web_search"), policy("web")), Resolved)


@pytest.mark.parametrize("name", ["", "Read", "read-file", "read file", "1read", "r" * 65, "read\n"])
def test_bad_names_are_refused_at_the_start(name: str) -> None:
    with pytest.raises(InvalidRequest, match="tool name"):
        Registry([Double(name)])


def test_two_tools_of_one_name_are_refused_at_the_start() -> None:
    with pytest.raises(InvalidRequest, match="two tools are named a"):
        Registry([Double("a"), Double("a", "web")])
