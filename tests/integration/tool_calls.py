"""A tool call as the loop makes one, and a workspace for it, for the tests of tools."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.contracts.tools import Tool, ToolContext, ToolOutput
from hermes_tasks.tools.workspace import Workspaces

AS_ROOT = os.geteuid() == 0
_POLICY = Policy(iterations=5, deadline_s=60, toolsets=("file", "terminal", "web"))


def run_of(user: str, **more: Any) -> RunRecord:
    """The record of a child of that user."""
    values = {"id": "r1", "kind": RunKind.CHILD, "state": RunState.RUNNING, "policy": _POLICY, **more}
    return RunRecord.model_validate({"user": user, **values})


def workspace_of(root: Path, user: str, session: str = "s1") -> Path:
    """The workspace of a session, below a directory for all users."""
    return Workspaces(root).made_for(run_of(user, session=session))


def passable(base: Path) -> Path:
    """``base``, where others may pass through to what lies below, as an operator makes it for a root worker."""
    for folder in (base, *base.parents):
        if AS_ROOT and folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    return base


def eventually(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    """True as soon as the condition holds, False when it did not in time. Blocks the caller."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def context(workspace: Path, *, seconds_left: float = 60.0) -> ToolContext:
    return ToolContext(run=run_of("ann", session="s1"), workspace=workspace, seconds_left=seconds_left)


async def call(tool: Tool, workspace: Path, args: Mapping[str, Any], *, seconds_left: float = 60.0) -> ToolOutput:
    return await tool.run(context(workspace, seconds_left=seconds_left), args)
