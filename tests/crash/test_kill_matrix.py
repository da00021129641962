"""Every way to die x every point of a delegation: one result per child, one continuation, no effect twice.

One fleet; per blow one user for each place at which a parent or its children can be. All are brought to their place,
then the workers that have them in hand (or the store) are struck at once, and others go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import pytest

from hermes_tasks.contracts.kinds import RunState
from tests.crash import blows, held, plays
from tests.crash.blows import Blow, Processes
from tests.crash.findings import Turn, outcome_of_tool
from tests.crash.fleet import wait_until
from tests.crash.stage import Stage, staged

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800)]


class Point(StrEnum):
    """Where a delegation is when it is struck."""

    CHILD_QUEUED = "child queued"
    CHILD_ASKING = "child mid model call"
    CHILD_ACTING = "child mid tool"
    CHILD_FINISHED = "child finished, not joined"
    PARENT_SUSPENDED = "parent suspended"
    PARENT_RESUMED = "parent being resumed"


@dataclass(frozen=True, slots=True)
class Case:
    """One place.

    Attributes:
        silent: calls that the model does not answer, as a pattern for what follows the turn's name.
        in_flight: how many of those are open then.
        waiting: the parent's state must be ``waiting`` as well.
        late: recovery, which knows nothing of places, would soon help it on: so it is reached last.
    """

    point: Point
    silent: str = ""
    in_flight: int = 0
    waiting: bool = False
    late: bool = False
    tasks: int = 3


#: By place; those that are not in ``held.PLACES`` are held by the model or by a tool alone.
CASES = {
    "unrung": Case(Point.CHILD_QUEUED, late=True),  # stored, no doorbell rung
    "rung": Case(Point.CHILD_QUEUED, late=True, waiting=True),  # doorbells taken, nothing claimed
    "backlog": Case(Point.CHILD_QUEUED, "/.:0", 3, waiting=True, tasks=5),  # two of five wait for the window
    "asking": Case(Point.CHILD_ASKING, "/.:1", 3, waiting=True),
    "acting": Case(Point.CHILD_ACTING, waiting=True),
    "unfinished": Case(Point.CHILD_FINISHED, waiting=True),  # all three answered, no end is written
    "outrun": Case(Point.CHILD_FINISHED, waiting=True),  # the same
    "first-finished": Case(Point.CHILD_FINISHED, "/[12]:1", 2, waiting=True),  # one end written, two still at work
    "last-finished": Case(Point.CHILD_FINISHED, late=True),  # the join is written, the parent's doorbell is not rung
    "unsuspended": Case(Point.PARENT_SUSPENDED, "/.:0", 3),  # about to be
    "overtaken": Case(Point.PARENT_SUSPENDED),  # about to be, and all children have ended meanwhile
    "suspended": Case(Point.PARENT_SUSPENDED, "/.:0", 3, waiting=True),  # written, not known to the worker
    "waiting": Case(Point.PARENT_SUSPENDED, "/.:0", 3, waiting=True),
    "resume-rung": Case(Point.PARENT_RESUMED, late=True),  # doorbell taken, nothing claimed
    "resume-claimed": Case(Point.PARENT_RESUMED, late=True),
    "uncollected": Case(Point.PARENT_RESUMED),  # results read, not stored
    "collected": Case(Point.PARENT_RESUMED),  # stored, not known to the worker
    "continuing": Case(Point.PARENT_RESUMED, ":1", 1),
    "uncommitted": Case(Point.PARENT_RESUMED),  # answered, not committed
}
#: Places just before a write. A worker that was frozen there wakes up beside a successor that has come as far …
STALE = ("unfinished", "unsuspended", "uncollected")
#: … or when all is over.
OUTRUN = ("outrun", "uncommitted")


def place_of(name: str) -> str:
    return name.partition(".")[0]


def silent(call: str) -> bool:
    name = plays.turn_of(call)
    case = CASES.get(place_of(name))
    return case is not None and re.fullmatch(case.silent, call.removeprefix(name)) is not None


def reached(stage: Stage, turn: Turn) -> bool:
    """The turn is at its place."""
    place = place_of(turn.name)
    case = CASES[place]
    if case.waiting and stage.record(turn).state is not RunState.WAITING:
        return False
    if place == "acting" and len(stage.marks(turn)) < turn.tasks:
        return False
    if place == "overtaken" and not all(run.state.terminal for run in stage.operator.children(turn.user, turn.run)):
        return False
    wanted = held.PLACES[place].count if place in held.PLACES else 0
    return stage.held(turn) >= wanted and stage.in_flight(turn) == case.in_flight


def strike(stage: Stage, blow: Blow, turns: list[Turn]) -> None:
    """Strike while every turn is at its place, and let everything go on."""
    if blow is Blow.STORE:
        blows.restart(stage.server, stage.operator)
        stage.open(turns)
        return stage.await_end(turns)
    victims = stage.workers()
    stage.start_workers()
    match blow:
        case Blow.SIGKILL:
            blows.kill(victims)
            stage.open(turns)
        case Blow.SIGTERM:
            # What waits in a claim is not cut off: a claim is over soon, or the store is away.
            blows.stop(victims, lambda: stage.open([turn for turn in turns if CASES[place_of(turn.name)].late]))
            stage.open(turns)
        case Blow.FROZEN:
            freeze(stage, victims, turns)
    stage.await_end(turns)
    return blows.stop(victims)


def freeze(stage: Stage, victims: Processes, turns: list[Turn]) -> None:
    """Freeze them until others have their runs. What they write when they wake up is refused, and they stay alive."""
    stale, outrun = ([turn for turn in turns if place_of(turn.name) in places] for places in (STALE, OUTRUN))

    def taken_over(turn: Turn) -> bool:
        return stage.held(turn) - stage.held(turn, victims) >= held.PLACES[place_of(turn.name)].count

    def meanwhile() -> None:
        stage.open([turn for turn in turns if turn not in stale])
        wait_until("others are as far", lambda: all(map(taken_over, stale)), 30)
        stage.await_end(outrun)

    blows.freeze(victims, meanwhile)
    stage.let_go(stale, victims)
    stopped = partial(stage.stopped, processes=victims)
    wait_until("none of them goes on", lambda: all(map(stopped, stale + outrun)), 10)
    stage.open(stale)
    assert all(process.poll() is None for process in victims), "a worker that was frozen ended"


def play(stage: Stage, blow: Blow, round_: int) -> dict[str, list[str]]:
    """Bring one turn to each place, strike, and see what became of them."""
    stage.await_workers()
    turns = []
    for late in (False, True):
        places = [place for place, case in CASES.items() if case.late is late]
        begun = [stage.begin(f"{place}.{blow}{round_}", CASES[place].tasks) for place in places]
        wait_until("each place is reached", lambda: all(reached(stage, turn) for turn in begun), 60)  # noqa: B023
        turns += begun
    assert [turn.name for turn in turns if stage.over(turn)] == [], "ended before the blow"
    strike(stage, blow, turns)
    found = {place_of(name): lines for name, lines in stage.findings(turns).items()}
    found["acting"] += told(stage, blow, next(turn for turn in turns if place_of(turn.name) == "acting"))
    return found


def told(stage: Stage, blow: Blow, turn: Turn) -> list[str]:
    """A command that lost its worker left its mark, and its model was told that the effect is unknown."""
    children = stage.operator.children(turn.user, turn.run)
    outcomes = [outcome_of_tool(stage.operator, child) for child in children]
    wanted = "ok" if blow is Blow.STORE else "unknown"
    return [] if outcomes == [wanted] * 3 and sorted(stage.marks(turn)) == ["0", "1", "2"] else [f"told {outcomes}"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    cast = plays.Cast(silent, keeps=lambda name: place_of(name) == "acting")
    with staged(tmp_path_factory.mktemp("matrix"), cast) as stage:
        yield stage


@pytest.fixture(scope="module", params=list(Blow))
def found(stage: Stage, request: pytest.FixtureRequest, rounds: int) -> dict[str, list[str]]:
    """Place → what was wrong there after that blow."""
    found: dict[str, list[str]] = {place: [] for place in CASES}
    for number in range(rounds):
        for place, lines in play(stage, request.param, number).items():
            found[place] += [f"round {number}: {line}" for line in lines]
    return found


@pytest.mark.parametrize("place", [pytest.param(name, id=f"{case.point}: {name}") for name, case in CASES.items()])
def test_one_result_and_one_continuation(found: dict[str, list[str]], place: str) -> None:
    assert found[place] == []
