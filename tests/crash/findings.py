"""What must hold of a turn and its children once everything is quiet; each breach is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.store.keys import user_key
from tests.crash import plays
from tests.crash.viewer import Operator

_STEPS = ["model", "started", "tool", "model"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn that was asked for."""

    user: str
    session: str
    run: str
    name: str
    tasks: int = 3


def findings(operator: Operator, asked: Counter[str], turn: Turn) -> list[str]:
    """Everything that is wrong with a turn; empty is what is promised.

    Args:
        asked: how often each call was made, by its tag.
    """
    parent = operator.record(turn.user, turn.run)
    children = operator.children(turn.user, turn.run)
    return [
        *_answer(operator, turn, parent),
        *_children(turn, children),
        *_events(operator, turn),
        *_steps(operator, [parent, *children]),
        *_calls(operator, asked, turn, [parent, *children]),
        *_marks(operator, operator.workspace(turn.user, turn.run) / plays.marks(turn.name), children),
    ]


def outcome_of_tool(operator: Operator, child: RunRecord) -> str:
    """What the child's model was told of its one command: ``ok``, ``error`` or ``unknown``."""
    steps = operator.run(operator.base.runs.steps(child.user, child.id))
    return next((step.status for step in steps if isinstance(step, ToolStep)), "nothing")


def leftovers(operator: Operator, user: str, *, reviews: bool = False) -> list[str]:
    """What is still open, admitted, waited for or due.

    Args:
        reviews: look at them too; without a worker that serves them they stay queued.
    """
    classes = ("turn", "child", "review") if reviews else ("turn", "child")
    names = [f"{part}:{name}" for name in classes for part in ("win", "back", "first")]
    found = [f"{name} holds {members}" for name in names if (members := _members(operator, user, name))]
    runs = [run for run in operator.run(operator.base.runs.recent(user, 5000)) if run.kind in classes]
    found += [f"{run.kind} {run.id} is {run.state}" for run in runs if not run.state.terminal]
    found += [
        f"winp:{run.id} holds {members}" for run in runs if (members := _members(operator, user, f"winp:{run.id}"))
    ]
    due = {member.partition(":")[2] for member in _members(operator, user, "due")}
    return found + [f"{run.id} is still due" for run in runs if run.id in due]


def _members(operator: Operator, user: str, name: str) -> list[str]:
    key = user_key(user, name)
    [kind] = operator.read(("TYPE", key))
    command = {"set": ("SMEMBERS", key), "list": ("LRANGE", key, 0, -1), "zset": ("ZRANGE", key, 0, -1)}.get(kind)
    return sorted(operator.read(command)[0]) if command else []


def _answer(operator: Operator, turn: Turn, parent: RunRecord) -> Iterator[str]:
    entries = [entry for entry in operator.history(turn.user, turn.session) if entry["run"] == turn.run]
    if len(entries) != 1:
        yield f"{len(entries)} entries in history"
    if parent.state is not RunState.COMPLETED:
        yield f"the turn is {parent.state}: {parent.result}"
    wanted = plays.answer(turn.name, turn.tasks)
    yield from (f"answered {entry['text']!r}" for entry in entries if entry["text"] != wanted)


def _children(turn: Turn, children: list[RunRecord]) -> Iterator[str]:
    if [child.index for child in children] != list(range(turn.tasks)):
        yield f"children {[child.index for child in children]}"
    for child in children:
        if child.state is not RunState.COMPLETED or child.result.get("text") != f"{turn.name}/{child.index} done":
            yield f"child {child.index} is {child.state}: {child.result}"


def _events(operator: Operator, turn: Turn) -> Iterator[str]:
    """Each end is told once: it is written with the end itself."""
    told: Counter[tuple[str, Any]] = Counter()
    for kind, data in operator.events(turn.user, turn.session):
        if kind == "child.ended":
            told[kind, data["run"].partition(".")[0], data["index"]] += 1
        elif data.get("run") == turn.run:
            told[kind, turn.run, None] += 1
    once = ("turn.started", "batch.started", "batch.joined", "turn.ended")
    yield from (f"{kind} told {times} times" for kind in once if (times := told[kind, turn.run, None]) != 1)
    yield from (f"{what} told {times} times" for what, times in told.items() if what[0] == "child.ended" and times != 1)


def _steps(operator: Operator, runs: list[RunRecord]) -> Iterator[str]:
    for run in runs:
        steps = operator.run(operator.base.runs.steps(run.user, run.id))
        if [step.t for step in steps] != _STEPS:
            yield f"{run.kind} {run.index} has steps {[step.t for step in steps]}"


def _calls(operator: Operator, asked: Counter[str], turn: Turn, runs: list[RunRecord]) -> Iterator[str]:
    """A claim that was cut off costs at most the one answer in flight; what is stored is never asked for again."""
    for run in runs:
        name = f"{turn.name}/{run.index}" if run.parent else turn.name
        times = [asked[f"{name}:{said}"] for said in range(2)]
        claims = run.fence - 1  # its end raised the fence once more
        cut_off = claims - (2 if operator.fields(run.user, run.id).get("suspender") else 1)
        if not all(times) or sum(times) - 2 > cut_off:
            yield f"{name} was asked {times} times, and {cut_off} claims were cut off"


def _marks(operator: Operator, path: Path, children: list[RunRecord]) -> Iterator[str]:
    """A command runs at most once, and what is not known to have ended is said to be unknown."""
    marks = Counter(path.read_text().split() if path.exists() else [])
    for child in children:
        status = outcome_of_tool(operator, child)
        left = marks[str(child.index)]
        if left > 1 or (status, left) == ("ok", 0) or status not in ("ok", "unknown"):
            yield f"child {child.index} left {left} marks and its tool ended {status}"
