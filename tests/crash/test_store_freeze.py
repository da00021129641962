"""A store that is frozen for 6 s, twice a lease: nobody is charged an attempt and no call is repeated."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until
from tests.crash.scripts import CHILD_STEPS, TASKS, delegating, tag
from tests.crash.test_delegation_kill import mid_run
from tests.crash.viewer import Operator

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

FROZEN_S = 6.0


def test_a_frozen_store_costs_time_and_nothing_else(server: EmbeddedServer, tmp_path: Path, rounds: int) -> None:
    with (
        ModelServer.threaded(delegating(0.8), tag=tag, keep=100_000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
    ):
        operator.add_user("ann")
        fleet.start("turns")
        fleet.start("delegation", 2)
        for round_ in range(rounds):
            wait_until("the workers serve", lambda: operator.serving("delegation") == 2, 60)
            before = len(model.calls)
            turn = operator.say("ann", f"s{round_}", "please delegate this")
            wait_until("three children mid-run", lambda: mid_run(operator, "ann", turn), 60)  # noqa: B023
            server.freeze()
            threading.Event().wait(FROZEN_S)  # the length of the freeze is what is tested
            server.thaw()
            wait_until("the turn ends", lambda: operator.record("ann", turn).state.terminal, 60)  # noqa: B023
            children = operator.children("ann", turn)
            assert [run.state for run in children] == [RunState.COMPLETED] * len(TASKS)
            assert [(run.attempts, run.takeovers, run.fence) for run in children] == [(0, 0, 2)] * len(TASKS)
            asked = Counter(call.tag for call in model.calls[before:] if call.tag.startswith("child:"))
            expected = {f"child:{goal}:{step}" for goal in TASKS for step in range(CHILD_STEPS + 1)}
            assert set(asked) == expected
            assert set(asked.values()) == {1}, "a call was repeated"
