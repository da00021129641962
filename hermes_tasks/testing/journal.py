"""A journal in memory that can die, lose its lease or be cancelled at any write.

:class:`MemoryRun` is what the store would hold; each :class:`MemoryJournal` is one holder of its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Outcome, OverBudget, Pause, Policy, RunRecord
from hermes_tasks.contracts.steps import StartedStep, ToolStep, step_from_json
from hermes_tasks.contracts.tools import ToolOutput


class Died(BaseException):
    """The process is gone. No handler of the product may see it, therefore not an ``Exception``."""


@dataclass(slots=True)
class MemoryRun:
    """One stored run.

    Attributes:
        stored: its steps as JSON, as they outlive a process.
        events: (attempt, type, data) of everything emitted.
        pending: batches whose children are still at work.
        outcome: what ``finish`` wrote.
        pinned: opening message and system prompt, once a holder pinned them.
        paused: the last pause.
        used_today: tokens of the user's day that are gone.
        reserved_today: tokens of it that are set aside for other runs.
        reserved: what was set aside for this run, call by call.
        day_ends: when that day ends, in an hour.
    """

    record: RunRecord
    stored: list[str] = field(default_factory=list)
    events: list[tuple[int, str, Mapping[str, Any]]] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)
    claims: int = 0
    state: RunState = RunState.QUEUED
    outcome: Outcome | None = None
    pinned: tuple[str, str] | None = None
    paused: Pause | None = None
    used_today: int = 0
    reserved_today: int = 0
    reserved: list[int] = field(default_factory=list)
    day_ends: datetime = datetime(2030, 1, 2, tzinfo=UTC)

    @property
    def steps(self) -> list[AnyStep]:
        """The stored steps, decoded."""
        return [step_from_json(text) for text in self.stored]


def memory_run(policy: Policy, *, kind: RunKind = RunKind.CHILD, run_id: str = "run-1", user: str = "ann") -> MemoryRun:
    """A run nobody has claimed yet."""
    record = RunRecord(id=run_id, kind=kind, user=user, session="s1", state=RunState.RUNNING, policy=policy)
    return MemoryRun(record)


@dataclass(frozen=True, slots=True)
class Faults:
    """Where it goes wrong, by the number of the write (1 = the first of this holder, tool scripts included).

    Attributes:
        die_before: the process dies with the write undone.
        die_after: the process dies with the write done and its answer unread.
        lose_at: the write is refused since somebody else holds the run.
        cancel_at: the write is refused since the run was ended from outside.
        suspends: what ``suspend`` answers, in order; afterwards the truth.
    """

    die_before: int = 0
    die_after: int = 0
    lose_at: int = 0
    cancel_at: int = 0
    suspends: Iterable[bool] = ()


class MemoryGuard:
    """What a stored tool hands to its script: here the script itself."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal

    def commit(self, step: AnyStep, effect: Callable[[], None] = lambda: None) -> None:
        """Write effect and step together, or neither."""
        self._journal.write(step, effect)


class MemorySlot:
    """See :class:`hermes_tasks.contracts.tools.Slot`."""

    def __init__(self, journal: MemoryJournal, call: int, name: str) -> None:
        self.guard = MemoryGuard(journal)
        self._journal = journal
        self._call = call
        self._name = name
        self._made: AnyStep | None = None

    def step(self, output: ToolOutput) -> ToolStep:
        """See ``Slot``."""
        made = ToolStep(
            call=self._call, name=self._name, content=output.content, status="error" if output.error else "ok"
        )
        self._made = made
        return made

    def started(self, batch: str) -> StartedStep:
        """See ``Slot``."""
        made = StartedStep(calls=(self._call,), batch=batch)
        self._made = made
        return made

    def written(self) -> None:
        """See ``Slot``."""
        if self._made is not None:
            self._journal.known(self._made)
            self._made = None


class MemoryJournal:
    """One claim of a :class:`MemoryRun`.

    Args:
        seconds: until the deadline; a number or a function that is asked each time.
    """

    def __init__(
        self, run: MemoryRun, faults: Faults | None = None, *, seconds: float | Callable[[], float] = 600.0
    ) -> None:
        run.claims += 1
        run.state = RunState.RUNNING
        self.run = run
        self._attempt = run.claims
        self._steps = run.steps
        self._faults = faults or Faults()
        self._suspends = iter(self._faults.suspends)
        self._seconds = seconds
        self._writing = asyncio.Lock()
        self._writes = 0
        self._dead = False
        self._ended: LeaseLost | RunCancelled | None = None
        #: How often the loop asked whether it may begin something.
        self.readies = 0
        self.released = False

    @property
    def record(self) -> RunRecord:
        """See ``Journal``."""
        return self.run.record

    @property
    def attempt(self) -> int:
        """See ``Journal``."""
        return self._attempt

    @property
    def steps(self) -> Sequence[AnyStep]:
        """See ``Journal``."""
        return self._steps

    async def ready(self) -> None:
        """See ``Journal``."""
        self._check()
        self.readies += 1

    async def append(self, step: AnyStep, events: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """See ``Journal``."""

        def tell() -> None:
            self.run.events.extend((self._attempt, kind, data) for kind, data in events)

        async with self._writing:
            await asyncio.sleep(0)  # a write takes a round trip
            self.write(step, tell)
            self.known(step)

    @asynccontextmanager
    async def slot(self, call: int, name: str) -> AsyncIterator[MemorySlot]:
        """See ``Journal``."""
        async with self._writing:
            self._check()
            yield MemorySlot(self, call, name)

    async def emit(self, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """See ``Journal``."""
        await asyncio.sleep(0)
        self._check()
        self.run.events.extend((self._attempt, kind, data) for kind, data in events)

    async def suspend(self) -> bool:
        """See ``Journal``."""
        self._check()
        answer = next(self._suspends, bool(self.run.pending))
        if answer:
            self.run.state = RunState.WAITING
            self._ended = LeaseLost("given back when the run was stored as waiting")
        return answer

    async def pause(self, pause: Pause) -> None:
        """See ``Journal``."""
        self._check()
        self.run.state, self.run.paused = RunState.WAITING, pause
        self.run.record = self.run.record.model_copy(update={"failures": pause.failures})
        self._ended = LeaseLost("given back when the run was stored as waiting")

    async def reserve(self, tokens: int, day_limit: int) -> OverBudget | None:
        """See ``Journal``."""
        self._check()
        if self.run.used_today + self.run.reserved_today + tokens <= day_limit:
            self.run.reserved.append(tokens)
            return None
        return OverBudget(self.run.used_today, self.run.reserved_today, day_limit, self.run.day_ends, 3600.0)

    async def finish(self, outcome: Outcome) -> None:
        """Write the terminal state, as a strategy's script does.

        Raises:
            LeaseLost, RunCancelled: as for any write.
        """
        self._check()
        self.run.state, self.run.outcome = outcome.state, outcome
        self._ended = RunCancelled("the run has ended")

    async def pin(self, opening: str, system: str) -> tuple[str, str]:
        """See ``Journal``."""
        self._check()
        self.run.pinned = self.run.pinned or (opening, system)
        return self.run.pinned

    async def release(self) -> None:
        """See ``Journal``."""
        if self._ended is None:
            self.run.state = RunState.QUEUED
            self._ended = LeaseLost("given back")
            self.released = True

    def seconds_left(self) -> float:
        """See ``Journal``."""
        return self._seconds() if callable(self._seconds) else self._seconds

    def lose(self, error: LeaseLost | RunCancelled) -> None:
        """From now on nothing can be written."""
        self._ended = error

    def write(self, step: AnyStep, effect: Callable[[], None] = lambda: None) -> None:
        """Store ``step`` together with ``effect``: what a script does in one go."""
        self._check()
        self._writes += 1
        if self._writes == self._faults.lose_at:
            self._ended = LeaseLost("somebody else holds the run now")
        if self._writes == self._faults.cancel_at:
            self._ended = RunCancelled("the run was cancelled")
        self._dead = self._dead or self._writes == self._faults.die_before
        self._check()
        effect()
        self.run.stored.append(step.model_dump_json())
        self._dead = self._writes == self._faults.die_after
        self._check()

    def known(self, step: AnyStep) -> None:
        """The answer of a write arrived."""
        self._steps.append(step)

    def _check(self) -> None:
        if self._dead:
            raise Died
        if self._ended is not None:
            raise self._ended
