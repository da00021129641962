from __future__ import annotations

from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.tools import Tool
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.registry import Registry
from hermes_tasks.tools.toolsets import file_tools, terminal_tools, web_tools


def registry(settings: ToolSettings) -> Registry:
    return Registry([*file_tools(), *terminal_tools(settings), *web_tools(settings)])


def offered(settings: ToolSettings, *toolsets: str) -> list[str]:
    policy = Policy(iterations=1, deadline_s=1, toolsets=toolsets)
    return [schema["name"] for schema in registry(settings).offered(policy)]


def test_each_toolset_has_its_tools() -> None:
    settings = ToolSettings(sandbox="none")  # so that it does not depend on this machine
    assert offered(settings, "file") == ["read_file", "write_file", "patch", "search_files"]
    assert offered(settings, "terminal") == ["terminal"]
    assert offered(settings, "web") == ["web_fetch", "web_search"]
    assert offered(settings) == []


def test_search_is_not_offered_where_it_is_switched_off() -> None:
    assert offered(ToolSettings(search="none"), "web") == ["web_fetch"]


def test_what_may_be_repeated_after_a_crash_is_declared() -> None:
    settings = ToolSettings()
    tools = [*file_tools(), *terminal_tools(settings), *web_tools(settings)]
    assert all(isinstance(tool, Tool) for tool in tools)
    assert {tool.name for tool in tools if isinstance(tool, Tool) and not tool.idempotent} == {"patch", "terminal"}


def test_the_limits_in_force_are_told() -> None:
    (terminal,) = terminal_tools(ToolSettings(terminal_timeout_s=77))
    assert "at most 77 s" in terminal.schema()["description"]
