"""Dangerous commands are denied at once in every kind of run, also when another tool prepares them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.contracts.tools import Tool, ToolOutput
from hermes_tasks.settings import Settings
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.registry import Registry
from hermes_tasks.tools.toolsets import file_tools, terminal_tools
from hermes_tasks.wiring.base import policies
from tests.integration.tool_calls import context, workspace_of

pytestmark = pytest.mark.anyio
KINDS = policies(Settings(home=Path("/nonexistent")))
RUNS_COMMANDS = sorted(kind for kind, policy in KINDS.items() if "terminal" in policy.toolsets)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return workspace_of(tmp_path / "ws", "ann")


async def asked(kind: str, workspace: Path, name: str, **args: Any) -> ToolOutput:
    """What a run of that kind gets for a call. Without a sandbox: a command that slips through would be seen."""
    registry = Registry([*file_tools(), *terminal_tools(ToolSettings(sandbox="none"))])
    policy: Policy = KINDS[kind]
    resolved = registry.resolve(ToolCall(id="c", name=name, arguments=json.dumps(args)), policy)
    if isinstance(resolved, ToolOutput):
        return resolved
    assert isinstance(resolved.tool, Tool)
    around = context(workspace)
    return await resolved.tool.run(
        replace(around, run=around.run.model_copy(update={"kind": RunKind(kind)})), resolved.args
    )


async def test_only_children_and_jobs_have_a_terminal(workspace: Path) -> None:
    assert RUNS_COMMANDS == ["child", "cron"]
    for kind in set(KINDS) - set(RUNS_COMMANDS):
        output = await asked(kind, workspace, "terminal", command="touch ran")
        assert output.error
        assert "not available to this run and was not run" in output.content
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("kind", RUNS_COMMANDS)
async def test_a_script_of_another_tool_is_judged_when_it_runs(kind: str, workspace: Path) -> None:
    assert not (await asked(kind, workspace, "write_file", path="s.sh", content="touch ran\nsudo reboot\n")).error
    assert not (await asked(kind, workspace, "write_file", path="t.sh", content="touch ran\necho harmless\n")).error
    patched = await asked(kind, workspace, "patch", path="t.sh", old="echo harmless", new="sudo reboot")
    assert not patched.error, patched.content
    for command in ("sh s.sh", "./s.sh &", "sh t.sh", "nohup sh -c '. ./t.sh' &", "cat t.sh | sh", "env sh < t.sh"):
        output = await asked(kind, workspace, "terminal", command=command)
        assert output.error
        assert output.content.startswith("denied, and not run: it "), command
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("kind", RUNS_COMMANDS)
@pytest.mark.parametrize(
    "more",
    [
        {"background": True},
        {"approve": True},
        {"approved": "yes"},
        {"sandbox": "none"},
        {"yolo": True},
        {"env": {"HERMES_TASKS_TOOLS__SANDBOX": "none"}},
    ],
    ids=str,
)
async def test_no_argument_asks_for_more(kind: str, workspace: Path, more: dict[str, Any]) -> None:
    output = await asked(kind, workspace, "terminal", command="touch ran", **more)
    assert output.error
    assert "not run" in output.content
    assert not (workspace / "ran").exists()
