"""A parent that waits holds no slot: it and its children pass through one, and four families through two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import both, plays
from tests.crash.findings import Turn, findings, leftovers
from tests.crash.fleet import Fleet, wait_until
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash


@pytest.mark.parametrize(("slots", "parents"), [(1, 1), (2, 4), (1, 4)])
def test_parents_and_children_pass_through_few_slots(
    server: EmbeddedServer, tmp_path: Path, slots: int, parents: int
) -> None:
    cast = plays.Cast(delay_s=lambda: 0.05)
    with (
        ModelServer.threaded(cast.script, tag=plays.tag, keep=100_000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
    ):
        operator.add_user("ann")
        names = [f"parent{number}" for number in range(parents)]
        turns = [Turn("ann", name, operator.say("ann", name, plays.message(name, 3)), name) for name in names]
        fleet.start("both", command=[both.__file__, str(slots)])
        wait_until("the worker serves", lambda: fleet.ready("both"), 60)
        took = wait_until(
            "all turns end", lambda: all(operator.record("ann", turn.run).state.terminal for turn in turns), 30
        )
        asked = Counter(call.tag for call in model.calls)
        assert {turn.name: lines for turn in turns if (lines := findings(operator, asked, turn))} == {}
        assert leftovers(operator, "ann") == []
        assert model.peak <= slots, "a run was at work without a slot"
        print(f"{parents} parents with 3 children each on {slots} slots: {took:.1f} s")
