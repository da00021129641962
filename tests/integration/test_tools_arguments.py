"""Calls with arguments that do not fit, tool by tool: an answer that helps, and no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_tasks.contracts.tools import Tool
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.toolsets import file_tools, terminal_tools, web_tools
from tests.integration.tool_calls import context

# ruff: noqa: ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio
REQUIRED = {
    "read_file": {"path"},
    "write_file": {"path", "content"},
    "patch": {"path", "old", "new"},
    "search_files": set(),
    "terminal": {"command"},
    "web_fetch": {"url"},
    "web_search": {"query"},
}


def tool_named(name: str) -> Tool:
    settings = ToolSettings()
    tools = {tool.name: tool for tool in (*file_tools(), *terminal_tools(settings), *web_tools(settings))}
    found = tools[name]
    assert isinstance(found, Tool)
    return found


@pytest.mark.parametrize("name", REQUIRED)
async def test_each_tool_says_what_it_needs(name: str) -> None:
    assert set(tool_named(name).schema()["parameters"].get("required", ())) == REQUIRED[name]


@pytest.mark.parametrize("name", REQUIRED)
async def test_wrong_arguments_are_answered_with_the_fields_and_nothing_is_done(name: str, tmp_path: Path) -> None:
    tool = tool_named(name)
    missing = [{}] if REQUIRED[name] else []
    good = dict.fromkeys(REQUIRED[name], "x")
    wrong = [*missing, {**good, "no_such_field": 1}, *({**good, field: 5} for field in good)]
    for args in wrong:
        output = await tool.run(context(tmp_path / "not-there"), args)
        assert output.error
        assert output.content.startswith("not run: ")
        fields = tool.schema()["parameters"]["properties"]
        assert all(field in output.content.partition("Fields: ")[2] for field in fields)
    assert not list(tmp_path.glob("*"))
