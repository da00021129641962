"""A child's plan and what its watchers see."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.delegation.strategy import ChildStrategy
from hermes_tasks.testing.journal import MemoryJournal, MemoryRun, memory_run

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=5, deadline_s=60, toolsets=("file",), model="small")
READ_FILE = {"name": "read_file"}


def child(**spec: str) -> MemoryRun:
    run = memory_run(POLICY)
    run.record = run.record.model_copy(update={"spec": spec, "batch": "b", "index": 2})
    return run


def strategy(*tools: dict[str, str]) -> ChildStrategy:
    return ChildStrategy(lambda policy: tools if policy == POLICY else (), lambda run: Path("/srv") / run.user)


async def test_the_plan_is_the_goal_and_nothing_else() -> None:
    plan = await strategy(READ_FILE).prepare(MemoryJournal(child(goal="find the port", context="")))
    assert plan.messages == ({"role": "user", "content": "Your task: find the port"},)
    assert plan.tools == (READ_FILE,)
    assert (plan.model, plan.policy) == ("small", POLICY)
    assert "Your working directory is /srv/ann." in plan.system


async def test_what_it_must_know_stands_below_the_goal() -> None:
    plan = await strategy().prepare(MemoryJournal(child(goal="find the port", context="in Leith")))
    assert plan.messages[0]["content"] == "Your task: find the port\n\nWhat you must know:\nin Leith"
    assert "working directory" not in plan.system, "without tools there is none"


async def test_every_holder_gets_the_same_plan() -> None:
    run, made = child(goal="find the port"), strategy(READ_FILE)
    assert await made.prepare(MemoryJournal(run)) == await made.prepare(MemoryJournal(run))


@pytest.mark.parametrize("kind", ["text", "tool_ended", "step_restarted"])
def test_its_words_are_not_shown(kind: Literal["text", "tool_ended", "step_restarted"]) -> None:
    journal = MemoryJournal(child(goal="x"))
    assert strategy().events(journal, ProgressNote(kind=kind, step=0, text="secret plan", name="web")) == ()


def test_its_tool_calls_are_shown_with_their_place() -> None:
    journal = MemoryJournal(child(goal="x"))
    [(kind, data)] = strategy().events(journal, ProgressNote(kind="tool_started", step=0, name="web"))
    who = {"run": "run-1", "batch": "b", "index": 2}
    assert (kind, data) == (EventType.CHILD_TOOL, {**who, "name": "web", "tool_count": 1})


def test_what_it_says_is_shown_short_and_without_secrets() -> None:
    key = "sk-proj-" + "aB3" * 16
    note = ProgressNote(kind="answer", step=4, text=f"the key is {key} " + "x" * 2000)
    [(kind, data)] = strategy().events(MemoryJournal(child(goal="x")), note)
    assert (kind, data["step"], len(data["text"])) == (EventType.CHILD_TEXT, 4, 600)
    assert key not in data["text"]


async def test_its_end_is_written() -> None:
    run = child(goal="x")
    outcome = Outcome(state=RunState.FAILED, exit_reason=ExitReason.EMPTY_ANSWER)
    await strategy().finish(MemoryJournal(run), outcome)
    assert run.outcome == outcome
