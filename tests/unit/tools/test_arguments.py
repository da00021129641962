from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field

from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema


class Example(Arguments):
    path: str = Field(description="Where.")
    limit: int = Field(default=5, ge=1, le=9)
    mode: Literal["a", "b"] = "a"
    tags: tuple[str, ...] = ()
    timeout_s: int | None = None


def test_the_schema_is_made_from_the_model() -> None:
    made = schema("example", "Does it.", Example)
    assert made["name"] == "example"
    assert made["description"] == "Does it."
    parameters = made["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["path"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["path"] == {"type": "string", "description": "Where."}
    assert parameters["properties"]["limit"] == {"type": "integer", "default": 5, "minimum": 1, "maximum": 9}


def test_good_arguments_are_read() -> None:
    assert read(Example, {"path": "x", "tags": ["a"], "mode": "b"}) == Example(path="x", tags=("a",), mode="b")


def test_null_for_a_field_that_may_be_left_out_means_left_out() -> None:
    assert read(Example, {"path": "x", "limit": None, "timeout_s": None}) == Example(path="x")


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({}, "path"),
        ({"path": None}, "path"),
        ({"path": 5}, "path"),
        ({"path": "x", "limit": "5"}, "limit"),
        ({"path": "x", "limit": True}, "limit"),
        ({"path": "x", "limit": 5.5}, "limit"),
        ({"path": "x", "limit": 10}, "limit"),
        ({"path": "x", "mode": "A"}, "mode"),
        ({"path": "x", "tags": "a"}, "tags"),
        ({"path": "x", "Path": "y"}, "Path"),
    ],
)
def test_nothing_is_guessed_and_the_wrong_field_is_named(args: dict[str, Any], field: str) -> None:
    output = read(Example, args)
    assert isinstance(output, ToolOutput)
    assert output.error
    assert output.content.startswith(f"not run: {field}")
    assert output.content.endswith(
        "Fields: path, limit (optional), mode (optional), tags (optional), timeout_s (optional)"
    )
