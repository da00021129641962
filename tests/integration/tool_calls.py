"""A tool call as the loop makes one, for the tests of tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.contracts.tools import Tool, ToolContext, ToolOutput


def context(workspace: Path, *, seconds_left: float = 60.0) -> ToolContext:
    policy = Policy(iterations=5, deadline_s=60, toolsets=("file", "terminal", "web"))
    record = RunRecord(id="r1", kind=RunKind.CHILD, user="ann", state=RunState.RUNNING, policy=policy)
    return ToolContext(run=record, workspace=workspace, seconds_left=seconds_left)


async def call(tool: Tool, workspace: Path, args: Mapping[str, Any], *, seconds_left: float = 60.0) -> ToolOutput:
    return await tool.run(context(workspace, seconds_left=seconds_left), args)
