"""Nine children of three calls in one message: three of them are asked for at a time, and nine results come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.demo.log import LoggedCall
from hermes_tasks.demo.reply import Call, Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash

GOALS = tuple(f"goal {number}" for number in range(9))


def _goal(request: dict[str, Any]) -> str:
    opening = str(request["messages"][1]["content"])
    return opening.partition("\n")[0].removeprefix("Your task: ") if opening.startswith("Your task: ") else ""


def script(request: dict[str, Any]) -> Reply:
    if goal := _goal(request):
        return Reply(text=f"did {goal}", delay=0.3)
    last = request["messages"][-1]
    if last["role"] == "user" and str(last["content"]).startswith("go"):
        parts = (GOALS[:3], GOALS[3:6], GOALS[6:])
        calls = [json.dumps({"tasks": [{"goal": goal} for goal in part]}) for part in parts]
        return Reply(calls=[Call("delegate_task", arguments) for arguments in calls])
    return Reply(text="all is told")


def most_at_once(calls: list[LoggedCall]) -> int:
    """How many of these calls were open together, by the server's own log."""
    return max(sum(one.started <= call.started < (one.ended or one.started) for one in calls) for call in calls)


def test_nine_children_of_three_calls_run_three_at_a_time(server: EmbeddedServer, tmp_path: Path) -> None:
    with (
        ModelServer.threaded(script, tag=_goal, keep=1000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
    ):
        operator.add_user("ann")
        fleet.start("turns")
        fleet.start("delegation", 2)
        turn = operator.say("ann", "s", "go")
        wait_until("the turn ends", lambda: operator.record("ann", turn).state.terminal, 60)
        assert operator.record("ann", turn).state is RunState.COMPLETED
        asked = [call for call in model.calls if call.tag]
        assert sorted(call.tag for call in asked) == list(GOALS)
        assert most_at_once(asked) == 3
        steps = operator.run(operator.base.runs.steps("ann", turn))
        results = [json.loads(step.content)["results"] for step in steps if isinstance(step, ToolStep)]
        told = [entry for batch in results for entry in batch]
        assert sorted(entry["goal"] for entry in told) == list(GOALS)
        assert {(entry["status"], entry["summary"] == f"did {entry['goal']}") for entry in told} == {
            ("completed", True)
        }
