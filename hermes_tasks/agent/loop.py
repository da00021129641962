"""One run from wherever its stored steps end to its outcome.

Everything the loop decides it reads from the steps, so a process that takes the run over decides the same. A model
answer is stored before anything is done with it, and a call that may have an effect is stored as begun before it is
run. What is lost with a process is at most the one model answer in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes_tasks.agent import verdict
from hermes_tasks.agent.asking import Asker, Sleep
from hermes_tasks.agent.budget import next_request_tokens, request_tokens
from hermes_tasks.agent.calls import Calls
from hermes_tasks.agent.context import best_cut, excerpt, is_full, summary_request
from hermes_tasks.agent.day_budget import DayBudget, OverDay
from hermes_tasks.agent.partial import clip
from hermes_tasks.agent.pausing import AloneAdmission, Paused
from hermes_tasks.agent.ports import Registry, Spill
from hermes_tasks.agent.progress import all_progress, is_blank, last_progress
from hermes_tasks.agent.streaming import TextStream
from hermes_tasks.agent.transcript import messages
from hermes_tasks.contracts.admission import Admission
from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    ContextTooLong,
    DeadlineExceeded,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
)
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.models import ModelPort
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.contracts.steps import SummaryStep, Usage
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote, ToolContext
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.safety.scrubber import scrub

RESULT_CHARS: Final = 16_000
_SUMMARY_CHARS: Final = 24_000
_log = get_logger(__name__)

Notes = Callable[[ProgressNote], Sequence[Event]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run meets beside its ports.

    Attributes:
        sleep: waits that many seconds; cancellable.
        admission: to the models' providers.
        budget: the tokens of a user's day.
        spill: where the whole text of a long tool result goes; None = only head and tail are kept.
        stopping: True once the worker shuts down: the run then stops before its next step.
    """

    sleep: Sleep = asyncio.sleep
    admission: Admission = field(default_factory=AloneAdmission)
    budget: DayBudget = field(default_factory=DayBudget)
    spill: Spill | None = None
    stopping: Callable[[], bool] = lambda: False


async def advance(
    journal: Journal,
    plan: Plan,
    model: ModelPort,
    registry: Registry,
    context: ToolContext,
    notes: Notes,
    surroundings: Surroundings | None = None,
) -> Outcome:
    """Continue the run until it is over, waits (for children, or paused), or the worker stops.

    Called again for the same steps it makes no second model call for what is stored, and gives the same outcome.

    Raises:
        LeaseLost, RunCancelled: the run is not ours any more; nothing may be written.
        StoreUnavailable, StoreFull: the steps so far are safe; the run goes on with the next holder.
    """
    return await _Run(journal, plan, model, registry, context, notes, surroundings or Surroundings()).go()


class _Run:
    def __init__(
        self,
        journal: Journal,
        plan: Plan,
        model: ModelPort,
        registry: Registry,
        context: ToolContext,
        notes: Notes,
        around: Surroundings,
    ) -> None:
        self._journal = journal
        self._plan = plan
        self._model = model
        self._notes = notes
        self._around = around
        self._asker = Asker(journal, plan, model, sleep=around.sleep, admission=around.admission, budget=around.budget)
        self._calls = Calls(
            journal, plan.policy, registry, context, self._fit, self._tell, around.sleep, self._context_left
        )
        self._streaming: TextStream | None = None

    async def go(self) -> Outcome:
        try:
            await self._tell_of_restart()
            while True:
                outcome = await self._next()
                if outcome is not None:
                    return outcome
        except Paused as signal:
            await self._journal.pause(signal.pause)
            return Outcome(state=RunState.WAITING)
        except OverDay as error:
            return verdict.over_day(str(error), self._journal.steps)
        except DeadlineExceeded as error:
            streaming = "" if self._streaming is None else self._streaming.text
            return verdict.timed_out(error, self._journal.steps, streaming)
        except (ModelUnavailable, RateLimited, ModelRefused, ContextTooLong, BadModelAnswer) as error:
            return verdict.failed(ExitReason.MODEL_ERROR, verdict.classified(error), self._journal.steps)

    async def _next(self) -> Outcome | None:
        """One step further, or the outcome."""
        steps = self._journal.steps
        over = verdict.verdict(self._plan.policy, steps)
        if over is not None:
            return over
        if self._around.stopping():
            return Outcome(state=RunState.QUEUED)
        progress = last_progress(steps)
        if progress is not None and progress.open_calls:
            there = await self._calls.settle(progress)
            return None if there else Outcome(state=RunState.WAITING)
        if is_full(self._plan, steps, self._window) and best_cut(self._plan, steps, self._window):
            return await self._condense()
        return await self._answer()

    async def _answer(self) -> Outcome | None:
        """Ask for the next answer and store it. The last one allowed is asked for without tools."""
        steps = self._journal.steps
        used = len(all_progress(steps))
        last = used + 1 >= self._plan.policy.iterations
        coming = next_request_tokens(self._plan, steps)
        over = verdict.over_budget(self._plan.policy, steps, coming)
        if over is not None:
            return over
        conversation = messages(self._plan, steps, closing=last and used > 0)
        self._streaming = TextStream(len(steps), self._tell)
        try:
            answer = await self._asker.ask(conversation, () if last else self._plan.tools, coming, self._streaming)
        except ContextTooLong:
            condensed_just_now = bool(steps) and isinstance(steps[-1], SummaryStep)
            if condensed_just_now or best_cut(self._plan, steps, self._window) is None:
                raise
            await self._streaming.restart()
            return await self._condense()
        said = scrub(answer.text)
        note = ProgressNote(kind="answer", step=len(steps), text=said)
        await self._journal.append(
            answer.model_copy(update={"text": said}), () if is_blank(said) else self._notes(note)
        )
        self._streaming = None
        return None

    async def _condense(self) -> Outcome | None:
        """Replace older steps by one summary, stored before it is used."""
        steps = self._journal.steps
        cut = best_cut(self._plan, steps, self._window)
        if cut is None:
            return None
        request = summary_request(self._plan, steps, cut, self._window)
        coming = request_tokens(request)
        over = verdict.over_budget(self._plan.policy, steps, coming)
        if over is not None:
            return over
        text, usage = "", Usage()
        try:
            answer = await self._asker.ask(request, (), coming)
            text, usage = "" if is_blank(answer.text) else scrub(answer.text).strip(), answer.usage
        except ContextTooLong:
            _log.warning("summary request too long, an excerpt is used")
        text = clip(text or excerpt(self._plan, steps, cut), _SUMMARY_CHARS)
        await self._journal.append(SummaryStep(text=text, upto=cut.upto, history=cut.history, usage=usage))
        _log.info("context condensed", steps=len(steps), upto=cut.upto, history=cut.history)
        return None

    @property
    def _window(self) -> int:
        return self._model.context_tokens(self._plan.model)

    def _context_left(self) -> int:
        return max(0, self._window - next_request_tokens(self._plan, self._journal.steps))

    async def _tell_of_restart(self) -> None:
        """Tell watchers to drop what an earlier holder may have streamed of an answer that was never stored."""
        steps = self._journal.steps
        progress = last_progress(steps)
        asks_next = progress is None or not progress.open_calls
        if self._journal.attempt > 1 and asks_next and verdict.verdict(self._plan.policy, steps) is None:
            await self._tell(ProgressNote(kind="step_restarted", step=len(steps)))

    async def _fit(self, key: str, text: str) -> str:
        """A tool's result without secrets, and short enough for the model; the whole of a long one is kept aside."""
        masked = await asyncio.to_thread(mask_secrets, text) if len(text) > RESULT_CHARS else mask_secrets(text)
        if len(masked) <= RESULT_CHARS:
            return masked
        spill, record = self._around.spill, self._journal.record
        pointer = (
            None
            if spill is None
            else await spill.save_long(record.user, record.id, f"{key}-{self._journal.attempt}", masked)
        )
        return clip(masked, RESULT_CHARS) + (f"\n[The whole text: {pointer}]" if pointer else "")

    async def _tell(self, note: ProgressNote) -> None:
        events = self._notes(note)
        if events:
            await self._journal.emit(events)
