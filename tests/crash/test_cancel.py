"""Cancel with real processes (field case Q-03): a model call is closed within two seconds, its worker takes the next
run at once, and what was cancelled while no worker lived is never asked."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.demo.log import LoggedCall
from hermes_tasks.demo.reply import Call, Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until, with_signal
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash

USER, SESSION = "ann", "s"
HANGS_S = 3600.0
WITHIN_S = 2.0
GOALS = ("hangs 0", "hangs 1", "quick 2", "hangs 3")


def _goal(request: dict[str, Any]) -> str:
    opening = str(request["messages"][1]["content"])
    return opening.partition("\n")[0].removeprefix("Your task: ") if opening.startswith("Your task: ") else ""


def script(request: dict[str, Any]) -> Reply:
    """Delegates four tasks for ``go``; children whose goal says so never get an answer."""
    if goal := _goal(request):
        return Reply(text=f"did {goal}", delay=HANGS_S if goal.startswith("hangs") else 0.0)
    last = request["messages"][-1]
    if last["role"] == "user" and "go" in str(last["content"]).split():
        tasks = [{"goal": goal} for goal in GOALS]
        return Reply(calls=[Call("delegate_task", json.dumps({"tasks": tasks}))])
    return Reply(text="all is told")


def open_goals(model: ModelServer) -> list[str]:
    return sorted(call.tag for call in model.calls if call.outcome == "open" and call.tag)


def states(operator: Operator, turn: str) -> list[RunState]:
    return [run.state for run in operator.children(USER, turn)]


def calls_of(model: ModelServer, goal: str) -> list[LoggedCall]:
    return [call for call in model.calls if call.tag == goal]


def test_whatever_is_cancelled_stops_within_two_seconds(server: EmbeddedServer, tmp_path: Path) -> None:
    # One slot more than the three that hang: a slot that is not given back would show.
    extra = {"HERMES_TASKS_WORKERS__DELEGATION__SLOTS": "3"}
    with (
        ModelServer.threaded(script, tag=_goal, keep=10_000) as model,
        Fleet(tmp_path, server, model.port, extra) as fleet,
        Operator(fleet.settings) as operator,
    ):
        operator.add_user(USER)
        fleet.start("turns")
        fleet.start("delegation")
        wait_until("both roles serve", lambda: operator.serving("delegation") + operator.serving("turns") == 2, 60)
        turn = operator.say(USER, SESSION, "please go")
        wait_until("two hang and one is done", lambda: open_goals(model) == ["hangs 0", "hangs 1", "hangs 3"], 60)

        # A child in the middle of its model call.
        operator.run(operator.base.runs.cancel(USER, f"{batch(operator, turn)}.0"))
        wait_until("its call is closed", lambda: open_goals(model) == ["hangs 1", "hangs 3"], WITHIN_S)
        assert states(operator, turn)[0] is RunState.CANCELLED

        # Its whole turn: the children that are left, and the worker is free for the next at once.
        operator.run(operator.base.runs.cancel(USER, turn))
        wait_until("all calls are closed", lambda: open_goals(model) == [], WITHIN_S)
        assert states(operator, turn) == [
            RunState.CANCELLED, RunState.CANCELLED, RunState.COMPLETED, RunState.CANCELLED
        ]  # fmt: skip
        again = operator.say(USER, SESSION, "go once more")
        wait_until("three slots are at work again", lambda: len(open_goals(model)) == 3, 5.0)

        # A session, with all workers dead: nothing of it is asked when they are back.
        for role in ("delegation", "turns"):
            for process in fleet.alive(role):
                with_signal(process, signal.SIGKILL)
                process.wait()
        waiting = operator.say(USER, SESSION, "go a third time")
        asked = model.total
        assert operator.run(operator.base.sessions.stop(USER, SESSION)) == 2
        assert [operator.record(USER, run).state for run in (again, waiting)] == [RunState.CANCELLED] * 2
        fleet.start("turns")
        fleet.start("delegation")
        wait_until("both roles serve", lambda: operator.serving("delegation") + operator.serving("turns") == 2, 60)
        last = operator.say(USER, SESSION, "hello")
        wait_until("the next message is answered", lambda: operator.record(USER, last).state.terminal, 30)
        assert operator.record(USER, last).state is RunState.COMPLETED
        assert model.total == asked + 1 + reviews(model, asked)


def reviews(model: ModelServer, since: int) -> int:
    return sum("Review the conversation" in str(call.messages[-1]) for call in model.calls if call.number >= since)


def batch(operator: Operator, turn: str) -> str:
    return str(operator.children(USER, turn)[0].batch)
