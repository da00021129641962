"""The tool as models see it, and what it refuses before anything is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.contracts.tools import Slot, ToolContext, ToolOutput
from hermes_tasks.delegation.grant import Nesting
from hermes_tasks.delegation.results import BatchResults
from hermes_tasks.delegation.tool import DelegateTask, Limits
from hermes_tasks.store.runs import Runs

pytestmark = pytest.mark.anyio

CHILD = Policy(iterations=17, deadline_s=60, toolsets=("terminal", "web"))


class NoRuns:
    """Nothing may be created: any use fails the test."""


def tool(**limits: Any) -> DelegateTask:
    runs = cast("Runs", NoRuns())
    chosen = Limits(**{"max_tasks": 5, "at_once": 2, "wait_s": 40} | limits)
    return DelegateTask(runs, CHILD, chosen, BatchResults(runs, max_summary_chars=100))


async def start(one: DelegateTask, args: dict[str, Any], depth: int = 0) -> ToolOutput:
    run = RunRecord(id="r", kind=RunKind.TURN, user="ann", state=RunState.RUNNING, policy=CHILD, depth=depth)
    output = await one.start(ToolContext(run, Path("/nonexistent"), 60.0), args, 0, cast("Slot", None))
    assert output is not None
    return output


def test_the_schema_shows_the_limits_in_force() -> None:
    text = str(tool().schema()["description"])
    assert "up to 5 in a call, of which 2 run at a time" in text
    assert "toolsets terminal, web and up to 17 steps" in text
    assert "longer than 40 s" in text
    assert "Sub-agents cannot delegate" in text
    assert "up to 9 in a call" in str(tool(max_tasks=9).schema()["description"])


def test_the_schema_offers_one_goal_or_several() -> None:
    schema = tool().schema()
    assert schema["name"] == "delegate_task"
    fields = schema["parameters"]["properties"]
    assert set(fields) == {"goal", "context", "toolsets", "tasks", "background"}
    assert fields["toolsets"]["items"]["enum"] == ["terminal", "web"]
    assert fields["tasks"]["items"]["required"] == ["goal"]
    assert set(fields["tasks"]["items"]["properties"]) == {"goal", "context", "toolsets"}


def test_roles_are_offered_where_children_may_delegate() -> None:
    schema = tool(nesting=Nesting(3)).schema()
    assert schema["parameters"]["properties"]["role"]["enum"] == ["leaf", "orchestrator"]
    assert "role" in schema["parameters"]["properties"]["tasks"]["items"]["properties"]
    assert "down to depth 3" in schema["description"]
    assert "role" not in tool(nesting=Nesting(3, orchestrators=False)).schema()["parameters"]["properties"]


async def test_a_run_at_the_depth_limit_may_not_delegate() -> None:
    output = await start(tool(), {"goal": "grandchild"}, depth=1)
    assert output.error
    assert "depth 1" in output.content
    assert "limit is 1" in output.content
    assert "limit is 3" in (await start(tool(nesting=Nesting(3)), {"goal": "x"}, depth=3)).content


@pytest.mark.parametrize(
    ("args", "says"),
    [({}, "give a goal"), ({"tasks": [{"goal": "x"}] * 6}, "6 tasks in one call, 5 are allowed")],
)
async def test_a_call_that_cannot_be_used_starts_nothing(args: dict[str, Any], says: str) -> None:
    output = await start(tool(), args)
    assert output.error
    assert says in output.content
