"""Whatever happens to those who execute: a run ends once, a batch joins once, places are neither lost nor left empty.

A small model in Python and the store are driven by the same random steps: trees of runs in narrow windows, holders that
die and wake up late, cancels, deadlines, suspends and joins in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hermes_tasks.contracts.errors import InvalidRequest, LeaseLost, RunCancelled
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.keys import shard_key, user_key
from hermes_tasks.store.runs import Runs
from tests.integration.store.world import ANSWER, CONFIG, DONE, FAILED, USER, World, new_run, tool_step

T = TypeVar("T")

WINDOW, PER_PARENT = 3, 2
NARROW = replace(CONFIG, windows={**CONFIG.windows, "child": WINDOW}, children_per_parent=PER_PARENT)
OPEN = (RunState.QUEUED, RunState.RUNNING, RunState.WAITING)


@dataclass
class Run:
    """What must be true of one run."""

    id: str
    parent: str = ""
    batch: str = ""
    state: RunState = RunState.QUEUED
    answered: bool = False
    steps: int = 0
    claimed_at: int = 0
    attempts: int = 0
    pending: int = 0
    fence: int = 0
    children: list[str] = field(default_factory=list)
    journal: StoreJournal | None = None


class Model:
    """Runs by id, and the open children of each batch."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.left: dict[str, int] = {}

    def add(self, run: Run) -> None:
        self.runs[run.id] = run
        if run.parent:
            self.runs[run.parent].children.append(run.id)

    def end(self, run: Run, state: RunState) -> None:
        run.state, run.journal = state, None
        run.fence += 1
        if state is not RunState.COMPLETED:
            self.cancel_below(run)
        if run.batch:
            self._join(run)

    def end_from_outside(self, run: Run, state: RunState) -> None:
        self.end(run, RunState.COMPLETED if run.answered else state)

    def cancel(self, run: Run) -> None:
        if run.state in OPEN:
            self.end_from_outside(run, RunState.CANCELLED)
            self.cancel_below(run)

    def cancel_below(self, run: Run) -> None:
        for child in (self.runs[name] for name in run.children):
            if child.state in OPEN:
                self.end_from_outside(child, RunState.CANCELLED)
            if child.state is RunState.COMPLETED:
                self.cancel_below(child)

    def put_back(self, run: Run) -> None:
        """Its process died."""
        run.attempts = 0 if run.steps > run.claimed_at else run.attempts + 1
        run.journal = None
        if run.attempts >= CONFIG.max_attempts:
            self.end_from_outside(run, RunState.LOST)
        else:
            run.state = RunState.QUEUED

    def _join(self, run: Run) -> None:
        self.left[run.batch] -= 1
        if self.left[run.batch]:
            return
        parent = self.runs[run.parent]
        if parent.state not in OPEN:
            return
        parent.pending -= 1
        if parent.state is RunState.WAITING and not parent.pending:
            parent.state = RunState.QUEUED


class RunMachine(RuleBasedStateMachine):
    """The store beside the model."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.world = World(url, NARROW)
        self.model = Model()
        self.late: list[StoreJournal] = []
        self.do(self._begin())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    async def _begin(self) -> None:
        await self.world.command("FLUSHALL")
        await self.world.users.add(USER)

    def _open(self, *states: RunState) -> list[Run]:
        return [run for run in self.model.runs.values() if run.state in (states or OPEN)]

    def _draw(self, data: st.DataObject, runs: list[Run]) -> Run:
        return data.draw(st.sampled_from(runs), label="run")

    # -- rules -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.runs) < 14)
    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        parent = data.draw(st.sampled_from(["", *self.model.runs]), label="parent")
        run = Run(f"r{len(self.model.runs)}", parent)
        creating = self.world.runs.create(new_run(RunKind.CHILD, run.id, parent=parent))
        if parent and self.model.runs[parent].state not in OPEN:
            with pytest.raises(InvalidRequest):
                self.do(creating)
        else:
            assert self.do(creating)
            self.model.add(run)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        run = self._draw(data, list(self.model.runs.values()))
        if run.attempts:
            self.do(self.world.on("HSET", f"run:{run.id}", "not_before", 0))  # its backoff is over
        admitted = self.do(self.world.on("SISMEMBER", "win:child", run.id))
        # A process of its own each time: suspects have tests elsewhere.
        journal = self.do(Runs(self.world.store, self.world.bell, self.world.renewer).claim(USER, run.id))
        assert (journal is not None) == (run.state is RunState.QUEUED and bool(admitted))
        if journal is not None:
            assert len(journal.steps) == run.steps
            run.state, run.journal, run.claimed_at, run.fence = RunState.RUNNING, journal, run.steps, run.fence + 1
            assert journal.attempt == run.fence

    @precondition(lambda self: self._open(RunState.RUNNING))
    @rule(data=st.data(), answer=st.booleans(), twice=st.booleans())
    def append(self, data: st.DataObject, answer: bool, twice: bool) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        step = ANSWER if answer else tool_step(f"{run.steps}")
        if twice:
            lease = run.journal.lease
            args = (
                run.id,
                lease.fence,
                lease.holder,
                run.steps,
                step.model_dump_json(),
                step.usage.model_dump_json() if answer else "",
                "2030-01-01",
                "child|m",
            )
            assert self.do(self.world.word("run_append", *args)) == "ok"
        self.do(run.journal.append(step))
        run.steps, run.answered = run.steps + 1, answer

    @precondition(lambda self: self._open(RunState.RUNNING) and len(self.model.runs) < 14)
    @rule(data=st.data(), count=st.integers(1, 3))
    def batch(self, data: st.DataObject, count: int) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        name = f"b{len(self.model.left)}"
        children = self.do(self.world.batch(run.journal, count, name))
        run.steps, run.answered, run.pending = run.steps + 1, False, run.pending + 1
        self.model.left[name] = count
        for child in children:
            self.model.add(Run(child, run.id, name))

    @precondition(lambda self: self._open(RunState.RUNNING))
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        assert self.do(run.journal.suspend()) == (run.pending > 0)
        if run.pending:
            self.late.append(run.journal)
            run.state, run.journal, run.attempts = RunState.WAITING, None, 0

    @precondition(lambda self: self._open(RunState.RUNNING))
    @rule(data=st.data(), outcome=st.sampled_from([DONE, FAILED, Outcome(state=RunState.EXHAUSTED)]))
    def finish(self, data: st.DataObject, outcome: Outcome) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        self.late.append(run.journal)
        self.do(run.journal.finish(outcome))
        self.model.end(run, outcome.state)

    @precondition(lambda self: self._open(RunState.RUNNING))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        self.late.append(run.journal)
        self.do(run.journal.release())
        run.state, run.journal = RunState.QUEUED, None

    @precondition(lambda self: self._open(RunState.RUNNING))
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        run = self._draw(data, self._open(RunState.RUNNING))
        assert run.journal is not None
        self.late.append(run.journal)
        self.do(self.world.take_over(run.journal))
        self.model.put_back(run)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run = self._draw(data, list(self.model.runs.values()))
        self.late += [each.journal for each in self._open(RunState.RUNNING) if each.journal]
        self.model.cancel(run)
        self.late = [journal for journal in self.late if self.model.runs[journal.record.id].journal is not journal]
        assert self.do(self.world.runs.cancel(USER, run.id)) is run.state

    @precondition(lambda self: self._open(RunState.WAITING, RunState.QUEUED))
    @rule(data=st.data())
    def deadline(self, data: st.DataObject) -> None:
        """The time of a run that nobody holds is over, in the queue or since its start."""
        run = self._draw(data, self._open(RunState.WAITING, RunState.QUEUED))
        self.late += [each.journal for each in self._open(RunState.RUNNING) if each.journal]
        self.do(self.world.make_due(f"end:{run.id}"))
        self.do(self.world.look())
        self.model.end_from_outside(run, RunState.TIMED_OUT)
        self.late = [journal for journal in self.late if self.model.runs[journal.record.id].journal is not journal]

    @rule()
    def everything_becomes_due(self) -> None:
        """Spare looks change nothing, whatever the state of what is looked at."""
        for run in self.model.runs.values():
            self.do(self.world.make_due(f"run:{run.id}"))
        assert self.do(self.world.look())["takeovers"] == 0

    @precondition(lambda self: self.late)
    @rule(data=st.data(), how=st.sampled_from(["append", "finish", "suspend", "batch", "emit", "release"]))
    def wake_late(self, data: st.DataObject, how: str) -> None:
        journal = data.draw(st.sampled_from(self.late), label="late")
        before = self.do(self.world.snapshot())
        write = {
            "append": lambda: journal.append(tool_step("late")), "finish": lambda: journal.finish(DONE),
            "suspend": journal.suspend, "batch": lambda: self.world.batch(journal, 1, "late"),
            "emit": lambda: self.world.script(
                "run_emit", journal.record.id, journal.lease.fence, journal.lease.holder, "s", "text", "{}"
            ),
            "release": journal.release,
        }[how]  # fmt: skip
        with suppress(LeaseLost, RunCancelled):
            self.do(write())
        assert self.do(self.world.snapshot()) == before

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def store_and_model_agree(self) -> None:
        runs = list(self.model.runs.values())
        wanted = ("state", "fence", "steps", "pending")
        inside, due, hint, *stored = self.do(
            self.world.store.read(
                ("SMEMBERS", user_key(USER, "win:child")), ("ZRANGE", user_key(USER, "due"), 0, -1, "WITHSCORES"),
                ("ZSCORE", shard_key(USER), USER),
                *(("HMGET", user_key(USER, f"run:{run.id}"), *wanted) for run in runs),
            )
        )  # fmt: skip
        assert {run.id: fields[0] for run, fields in zip(runs, stored, strict=True)} == {
            run.id: run.state for run in runs
        }
        for run, (_, fence, steps, pending) in zip(runs, stored, strict=True):
            assert (int(fence), int(steps)) == (run.fence, run.steps), run
            assert run.state not in OPEN or int(pending or 0) == run.pending, run
        self._places_are_neither_lost_nor_left_empty(set(inside))
        moments = {member: float(at) for member, at in zip(due[::2], due[1::2], strict=True)}
        assert {f"end:{run.id}" for run in self._open()} == {member for member in moments if member.startswith("end:")}
        assert {f"run:{run}" for run in inside} <= set(moments)
        assert not moments or (hint is not None and float(hint) <= min(moments.values())), (hint, moments)

    def _places_are_neither_lost_nor_left_empty(self, inside: set[str]) -> None:
        assert len(inside) <= WINDOW
        assert {run.id for run in self._open(RunState.RUNNING)} <= inside
        assert inside <= {run.id for run in self._open(RunState.RUNNING, RunState.QUEUED)}
        taken = {run.id: sum(child in inside for child in run.children) for run in self.model.runs.values()}
        assert all(count <= PER_PARENT for count in taken.values())
        if len(inside) < WINDOW:
            for run in self._open(RunState.QUEUED):
                full = run.parent and taken[run.parent] == PER_PARENT
                assert run.id in inside or full, f"{run.id} waits beside a free place"

    def teardown(self) -> None:
        try:
            self._quiesce()
        finally:
            self.do(self.world.aclose())
            self.loop.close()

    def _quiesce(self) -> None:
        """All processes are gone; one comes back and follows what is admitted: everything ends."""
        for run in self._open(RunState.RUNNING):
            assert run.journal is not None
            self.do(self.world.take_over(run.journal))
            self.model.put_back(run)
        for run in self._admitted():
            self.do(self.world.on("HSET", f"run:{run.id}", "not_before", 0, "attempts", 0))
            self.do(self.world.end(run.id))
            run.steps = len(self.do(self.world.runs.steps(USER, run.id)))
            run.fence += 1
            self.model.end(run, RunState.COMPLETED)
        assert self._open() == []
        self.store_and_model_agree()
        assert self.do(self.world.due()) == {}
        for pattern in ("win*", "back:*", "first:*"):
            assert self.do(self.world.command("KEYS", user_key(USER, pattern))) == []
        for name in self.model.left:
            joined = self.do(self.world.runs.batch(USER, name)).joined
            assert joined, name

    def _admitted(self) -> Iterator[Run]:
        for _ in range(100):
            inside = set(self.do(self.world.on("SMEMBERS", "win:child")))
            ready = [run for run in self._open(RunState.QUEUED) if run.id in inside]
            if not ready:
                return
            yield ready[0]


def test_the_store_and_the_model_agree(store_url: str) -> None:
    run_state_machine_as_test(
        lambda: RunMachine(store_url),
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )  # fmt: skip
