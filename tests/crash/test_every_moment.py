"""SIGKILL before and after every single script of a turn, and of a child: the run goes on as a step like any other.

User ``turns-7`` has a turn whose worker stops at the seventh of these moments, from the first claim over suspend and
resume to the commit; ``delegation-7`` has a child that does. All are brought there, and then their workers are killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import pytest

from tests.crash import blows, plays
from tests.crash.findings import Turn
from tests.crash.fleet import wait_until
from tests.crash.stage import Stage, staged

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800)]

#: More moments than a turn or a child has; those beyond its end show that none was left out.
MOMENTS = {"turns": 36, "delegation": 22}
#: Nothing renews a lease whose claim is still on its way back: they must not end while the others get to their place.
PATIENT = {"HERMES_TASKS_LEASE__LENGTH_MS": "6000", "HERMES_TASKS_RECOVERY__RING_AGAIN_MS": "10000"}


@pytest.fixture
def stage(tmp_path):
    with staged(tmp_path, plays.Cast(), PATIENT) as stage:
        yield stage


def test_nothing_is_lost_or_doubled_wherever_a_worker_dies(stage: Stage, rounds: int) -> None:
    for round_ in range(min(rounds, 5)):
        stage.await_workers()
        users = [f"{role}-{nth}.r{round_}" for role, most in MOMENTS.items() for nth in range(1, most + 1)]
        turns = [stage.begin(user, 1) for user in users]
        wait_until("all are at their place or over", lambda: all(map(lambda t: settled(stage, t), turns)), 60)  # noqa: B023, C417
        whole([turn.name for turn in turns if stage.held(turn)])
        victims = stage.workers()
        stage.start_workers()
        blows.kill(victims)
        stage.open(turns)
        stage.await_end(turns)
        assert {name: lines for name, lines in stage.findings(turns).items() if lines} == {}


def settled(stage: Stage, turn: Turn) -> bool:
    return stage.held(turn) > 0 or stage.over(turn)


def whole(struck: Sequence[str]) -> None:
    """The moments that were reached are all there are, from the first to the last."""
    numbers: dict[str, set[int]] = {role: set() for role in MOMENTS}
    for name in struck:
        role, _, nth = name.partition(".")[0].rpartition("-")
        numbers[role].add(int(nth))
    for role, reached in numbers.items():
        print(f"{role}: {len(reached)} moments")
        assert reached == set(takewhile(reached.__contains__, range(1, MOMENTS[role]))), (role, sorted(reached))
        assert 12 <= len(reached) < MOMENTS[role], (role, len(reached))
