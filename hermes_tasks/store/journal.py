"""The journal of one run: every write of its holder, guarded by fence, holder id and expected index."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.clock import day_in, from_ms, next_day
from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.runs import Outcome, OverBudget, Pause, RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolStep
from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.store.client import PATIENT, Store
from hermes_tasks.store.renewer import Lease, Renewer
from hermes_tasks.store.rings import rings_of

_WRITTEN: Final = ("ok", "continue")


@dataclass(frozen=True, slots=True)
class Guard:
    """What a script compares before it writes: run, fence, holder and the next step's index."""

    user: str
    run: str
    fence: int
    holder: str
    index: int

    def refusal(self, word: str) -> LeaseLost | RunCancelled:
        """The error for the word with which a guarded script refused to write."""
        if word == "ended":
            return RunCancelled(f"run {self.run} was ended from outside")
        if word == "rolled_back":
            return LeaseLost(
                f"run {self.run}: the store came back without steps that were written; it starts again there"
            )
        return LeaseLost(f"run {self.run}: somebody else holds it now")


class StoreSlot:
    """The right to write exactly one step, handed to a tool whose effect is in the store."""

    def __init__(self, guard: Guard, call: int, name: str, steps: list[AnyStep]) -> None:
        self.guard = guard
        self._call, self._name, self._steps = call, name, steps
        self._made: AnyStep | None = None

    def step(self, output: ToolOutput) -> ToolStep:
        """The step that records ``output`` for this call."""
        step = ToolStep(
            call=self._call, name=self._name, content=output.content, status="error" if output.error else "ok"
        )
        self._made = step
        return step

    def started(self, batch: str) -> StartedStep:
        """The step that says this call waits for the children of ``batch``."""
        step = StartedStep(calls=(self._call,), batch=batch)
        self._made = step
        return step

    def written(self) -> None:
        """The script wrote the step made last; it is part of the run now. A second call does nothing."""
        if self._made is not None:
            self._steps.append(self._made)
            self._made = None


class StoreJournal:
    """See :class:`hermes_tasks.contracts.journal.Journal`. Made by ``Runs.claim`` only."""

    def __init__(
        self, store: Store, bell: Bell, renewer: Renewer, record: RunRecord, lease: Lease, steps: list[AnyStep]
    ) -> None:
        self._store, self._bell, self._renewer = store, bell, renewer
        self._record, self._lease, self._steps = record, lease, steps
        self._writing = asyncio.Lock()

    @property
    def record(self) -> RunRecord:
        """The record as it was at the claim."""
        return self._record

    @property
    def attempt(self) -> int:
        """The fence of this holder."""
        return self._lease.fence

    @property
    def lease(self) -> Lease:
        """The lease this journal writes under."""
        return self._lease

    @property
    def steps(self) -> Sequence[AnyStep]:
        """All stored steps, oldest first."""
        return self._steps

    async def ready(self) -> None:
        """Wait until the lease was renewed recently enough to begin something."""
        await self._renewer.fresh(self._lease)

    async def append(self, step: AnyStep, events: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """Store one step, and tell the session's watchers."""
        async with self._writing:
            used, by = "", ""
            if isinstance(step, ModelStep | SummaryStep) and step.usage.calls:
                model = step.model if isinstance(step, ModelStep) else self._record.policy.model
                used, by = step.usage.model_dump_json(), f"{self._record.kind}|{model}"
            await self._guarded(
                "run_append", self._index(), step.model_dump_json(), used, self._today(), by, self._record.session,
                *_flat(events),
            )  # fmt: skip
            self._steps.append(step)

    @asynccontextmanager
    async def slot(self, call: int, name: str) -> AsyncIterator[StoreSlot]:
        """Reserve the next step; no other step can be written while the block runs."""
        async with self._writing:
            yield StoreSlot(self._guard(), call, name, self._steps)

    async def emit(self, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append events to the session's stream under the lease."""
        if events and self._record.session:
            await self._guarded("run_emit", self._record.session, *_flat(events))

    async def suspend(self) -> bool:
        """Store the run as waiting; False when nothing is pending any more."""
        async with self._writing:
            with self._leaving():
                answer = await self._guarded("run_suspend", self._index(), hint_ms=self._soon_ms)
            if answer["r"] == "continue":
                self._lease.leaving = False
                return False
            self._renewer.drop(self._lease)
            return True

    async def pause(self, pause: Pause) -> None:
        """Store the run as waiting for a while; nothing is held meanwhile."""
        wait_ms = max(1, round(pause.wait_s * 1000))
        async with self._writing:
            with self._leaving():
                await self._guarded(
                    "run_pause", self._index(), wait_ms, str(pause.why), pause.detail, pause.failures,
                    hint_ms=min(wait_ms, self._soon_ms),
                )  # fmt: skip
            self._renewer.drop(self._lease)

    async def finish(self, outcome: Outcome) -> None:
        """End the run. Everything its end means happens in the same script.

        Raises:
            LeaseLost, RunCancelled: somebody else decided; nothing was written.
        """
        result = {"text": outcome.text} | ({"error": outcome.error} if outcome.error else {})
        async with self._writing:
            with self._leaving():
                await self._guarded(
                    "run_finish", self._index(), str(outcome.state), str(outcome.exit_reason or outcome.state),
                    json.dumps(result, ensure_ascii=False), hint_ms=self._soon_ms,
                )  # fmt: skip
            self._renewer.drop(self._lease)

    async def release(self) -> None:
        """Give the lease back without an end: the run is queued and rung, and no attempt is counted.

        Does nothing when the lease is lost or was given back before.
        """
        async with self._writing:
            self._renewer.drop(self._lease)
            with suppress(LeaseLost, RunCancelled), self._leaving():
                await self._guarded("run_release", hint_ms=self._soon_ms)

    async def pin(self, opening: str, system: str) -> tuple[str, str]:
        """Pin what the model sees of a turn: the first call decides, every later one gets the same bytes."""
        answer = await self._guarded("run_pin", opening, self._record.session, self._record.generation, system)
        return str(answer["opening"]), str(answer["system"])

    def seconds_left(self) -> float:
        """Until the run's deadline, by the store's clock."""
        return (from_ms(self._record.deadline) - from_ms(self._store.now_ms())).total_seconds()

    async def reserve(self, tokens: int, day_limit: int) -> OverBudget | None:
        """Set tokens of the user's day aside for the next model call; None when there are enough left."""
        answer = await self._guarded(
            "budget_reserve", self._today(), day_limit, tokens, words=(*_WRITTEN, "over")
        )  # fmt: skip
        if answer["r"] == "ok":
            return None
        now = from_ms(self._store.now_ms())
        resets = next_day(self._record.zone, now)
        return OverBudget(
            int(answer["used"]), int(answer["reserved"]), day_limit, resets, (resets - now).total_seconds()
        )

    @property
    def _soon_ms(self) -> int:
        return self._store.config.soon_ms

    def _today(self) -> str:
        return day_in(self._record.zone, from_ms(self._store.now_ms()))

    def _index(self) -> int:
        return len(self._steps)

    def _guard(self) -> Guard:
        return Guard(self._record.user, self._record.id, self._lease.fence, self._lease.holder, self._index())

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Our own script ends the lease: the renewer, which may notice it before us, must not call that a loss."""
        self._lease.leaving = True
        try:
            yield
        except BaseException:
            self._lease.leaving = False
            raise

    async def _guarded(
        self, script: str, *args: str | int, hint_ms: int | None = None, words: Collection[str] = _WRITTEN
    ) -> dict[str, Any]:
        answer = await self._store.call(
            script, self._record.user, self._record.id, self._lease.fence, self._lease.holder, *args,
            hint_ms=hint_ms, patience=PATIENT,
        )  # fmt: skip
        await self._bell.ring(rings_of(self._record.user, answer))
        if answer["r"] in words:
            return answer
        self._renewer.drop(self._lease)
        raise self._guard().refusal(str(answer["r"]))


def _flat(events: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    return [text for kind, data in events for text in (kind, json.dumps(data, ensure_ascii=False))]
