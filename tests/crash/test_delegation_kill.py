"""SIGKILL of the worker that holds three children: all results reach the parent, once, and nothing is paid twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until
from tests.crash.scripts import CHILD_STEPS, TASKS, delegating, tag
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash


def holders(operator: Operator, user: str, parent: str) -> dict[str, int]:
    """Child run id → pid of the process that holds it now."""
    return {
        run.id: int(operator.fields(user, run.id)["worker"].rpartition(":")[2])
        for run in operator.children(user, parent)
        if run.state is RunState.RUNNING
    }


def mid_run(operator: Operator, user: str, parent: str) -> bool:
    children = operator.children(user, parent)
    return len(children) == len(TASKS) and all(run.state is RunState.RUNNING and run.steps >= 1 for run in children)


def test_children_survive_the_kill_of_their_worker(server: EmbeddedServer, tmp_path: Path, rounds: int) -> None:
    with (
        ModelServer.threaded(delegating(0.3), tag=tag, keep=100_000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
    ):
        operator.add_user("ann")
        fleet.start("turns")
        fleet.start("delegation", 2)
        takeovers = []
        for round_ in range(rounds):
            wait_until("two delegation workers serve", lambda: operator.serving("delegation") == 2, 60)
            before = len(model.calls)
            turn = operator.say("ann", f"s{round_}", "please delegate this")
            wait_until("three children mid-run", lambda: mid_run(operator, "ann", turn), 60)  # noqa: B023
            held = holders(operator, "ann", turn)
            victim, _ = Counter(held.values()).most_common(1)[0]
            killed_at = operator.now_ms()
            os.kill(victim, signal.SIGKILL)
            fleet.start("delegation")
            wait_until("the turn ends", lambda: operator.record("ann", turn).state.terminal, 60)  # noqa: B023
            check_once(operator, "ann", f"s{round_}", turn)
            check_calls(model.calls[before:])
            takeovers += claims_after(operator, [run for run, pid in held.items() if pid == victim], killed_at)
        assert max(takeovers) <= 5_000, takeovers
        middle = sorted(takeovers)[len(takeovers) // 2]
        print(f"takeover ms, {len(takeovers)} runs: min {min(takeovers)} median {middle} max {max(takeovers)}")


def check_once(operator: Operator, user: str, session: str, turn: str) -> None:
    """One committed answer that holds the three results in task order."""
    history = operator.history(user, session)
    assert [entry["run"] for entry in history] == [turn]
    assert history[0]["text"] == "joined: " + ", ".join(f"the answer for {goal}" for goal in TASKS)
    children = operator.children(user, turn)
    assert [run.state for run in children] == [RunState.COMPLETED] * len(TASKS)
    assert [run.index for run in children] == [0, 1, 2]


def check_calls(calls) -> None:
    """Each question of a child was asked once; at most the one in flight per child was asked again per kill."""
    asked = Counter(call.tag for call in calls if call.tag.startswith("child:"))
    for goal in TASKS:
        counts = [asked[f"child:{goal}:{step}"] for step in range(CHILD_STEPS + 1)]
        assert all(counts), (goal, counts)
        assert sum(counts) - len(counts) <= 1, (goal, counts)


def claims_after(operator: Operator, held: list[str], killed_at: int) -> list[int]:
    """Milliseconds from the kill to the new claim, for each child that the killed worker held."""
    found = []
    for run in held:
        fields = operator.fields("ann", run)
        if int(fields.get("takeovers", 0)) > 0:
            found.append(int(fields["claimed"]) - killed_at)
    assert found, "no child was taken over: the kill hit nobody"
    return found
