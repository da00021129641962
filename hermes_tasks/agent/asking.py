"""One model answer, however often it must be asked for: admission, budget, retries, pauses, deadline, streaming."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from hermes_tasks.agent.day_budget import DayBudget
from hermes_tasks.agent.pausing import SHORT_S, Paused, backoff
from hermes_tasks.agent.streaming import TextStream
from hermes_tasks.agent.together import together
from hermes_tasks.agent.verdict import classified
from hermes_tasks.contracts.admission import Admission, Caller, Wait
from hermes_tasks.contracts.errors import (
    DeadlineExceeded,
    HermesTasksError,
    ModelUnavailable,
    RateLimited,
    Retryable,
    StoreFull,
    StoreUnavailable,
)
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind, WaitReason
from hermes_tasks.contracts.models import Message, ModelPort, ModelRequest
from hermes_tasks.contracts.runs import Pause
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.contracts.strategy import Plan
from hermes_tasks.observe.logging import get_logger

#: That many failed calls in a row end the run; they are not iterations.
MAX_FAILURES: Final = 5

_log = get_logger(__name__)

Sleep = Callable[[float], Awaitable[None]]


class Asker:
    """Asks the model on behalf of one run."""

    def __init__(
        self, journal: Journal, plan: Plan, model: ModelPort, *, sleep: Sleep, admission: Admission, budget: DayBudget
    ) -> None:
        self._journal, self._plan, self._model = journal, plan, model
        self._sleep, self._admission, self._budget = sleep, admission, budget
        self._failures = journal.record.failures

    async def ask(
        self,
        conversation: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        coming: int,
        stream: TextStream | None = None,
    ) -> ModelStep:
        """One whole answer. Nothing is stored here; asked twice, it is paid twice.

        Args:
            coming: an estimate of the request's tokens.
            stream: takes the text as it comes; None for answers nobody watches.

        Raises:
            Paused: the run must wait without a slot; when it asks again, the failures so far count.
            OverDay: the tokens of the user's day do not suffice.
            DeadlineExceeded: the run's deadline passed while waiting.
            ModelUnavailable, RateLimited: five calls in a row failed, or the wait asked for ends after the deadline.
            ModelRefused, ContextTooLong, BadModelAnswer: at once; asking again cannot help.
            LeaseLost, RunCancelled, StoreUnavailable: as the journal raises them.
        """
        record, wanted = self._journal.record, self._budget.wanted(self._plan, coming)
        caller = Caller(record.user, record.id, record.kind is RunKind.TURN, wanted)
        while True:
            await self._journal.ready()
            await self._budget.reserve(self._journal, wanted, self._failures)
            try:
                model = await self._entered(caller)
                await self._journal.ready()
                try:
                    answer = await self._once(caller, model, conversation, tools, stream)
                except (StoreUnavailable, StoreFull):
                    raise
                except Retryable as error:
                    pause = await self._pause_after(model, error)
                else:
                    self._failures = 0
                    return answer
            finally:
                await self._admission.leave(caller)
            if stream is not None:
                await stream.restart()
            if pause is not None and pause.wait_s > SHORT_S:
                raise Paused(pause)
            if pause is not None:
                await self._sleep(pause.wait_s)

    async def _entered(self, caller: Caller) -> str:
        """The model that may be asked now.

        Raises:
            Paused: none may.
            RateLimited: none may before the deadline.
        """
        entered = await self._admission.enter(caller, self._plan.model)
        if isinstance(entered, Wait):
            raise Paused(self._pause(entered, self._plan.model))
        return entered

    def _pause(self, wait: Wait, model: str) -> Pause:
        self._check_wait(wait.least_s, model)
        return Pause(why=wait.why, detail=model, wait_s=wait.wait_s, failures=self._failures)

    async def _pause_after(self, model: str, error: Retryable) -> Pause | None:
        """How long to wait after a failed call; None = admission knows it.

        Raises:
            ModelUnavailable: it was one failure too many.
            RateLimited: the wait would end after the deadline.
        """
        blamed, least = model, 0.0
        if isinstance(error, RateLimited):
            blamed = error.model or model
            least = await self._admission.limited(blamed, error.retry_after)
        if not isinstance(error, RateLimited) or error.retry_after is None:
            self._failures += 1
        _log.warning("model call failed", model=blamed, failures=self._failures, reason=classified(error))
        if self._failures >= MAX_FAILURES:
            raise ModelUnavailable(
                f"{self._failures} calls in a row failed, the last one: {classified(error)}"
            ) from error
        left = self._check_wait(least, blamed)
        wait = backoff(self._journal.record.id, max(1, self._failures))
        if not isinstance(error, RateLimited):
            why = WaitReason.BACKOFF
        elif blamed == model:
            return None
        else:  # a fallback, where nobody stands in line
            why, wait = WaitReason.RATE, least + wait
        return Pause(why=why, detail=blamed, wait_s=min(wait, left), failures=self._failures)

    def _check_wait(self, least_s: float, model: str) -> float:
        """Seconds until the deadline, when a wait of ``least_s`` ends before it."""
        left = self._left("between two model calls")
        if least_s >= left:
            raise RateLimited(
                f"the rate limit of model {model!r} asks to wait {least_s:.0f} s, "
                f"but the run's deadline is in {left:.0f} s"
            )
        return left

    async def _before_fallback(self, caller: Caller, failed: str, error: HermesTasksError, fallback: str) -> None:
        if isinstance(error, RateLimited):
            await self._admission.limited(failed, error.retry_after)
        wait = await self._admission.enter_fallback(caller, fallback)
        if wait is not None and wait.least_s >= self._left("before a fallback"):
            raise error
        if wait is not None:
            raise Paused(self._pause(wait, fallback))

    async def _once(
        self, caller: Caller, model: str, conversation: Sequence[Message], tools: Sequence[Mapping[str, Any]],
        stream: TextStream | None,
    ) -> ModelStep:  # fmt: skip
        left = self._left("before a model call")
        request = ModelRequest(
            model=model,
            messages=conversation,
            tools=tools,
            timeout_s=min(self._plan.call_timeout_s, left),
            max_output_tokens=self._plan.max_output_tokens,
            before_fallback=partial(self._before_fallback, caller),
        )
        try:
            async with asyncio.timeout(left) as limit:
                if stream is None:
                    return await self._model.ask(request)
                return await self._streamed(request, stream)
        except (TimeoutError, ModelUnavailable):
            # The client's own limit is the same moment: whichever is first, the deadline is what ended the call.
            if limit.expired() or self._journal.seconds_left() <= 0:
                raise self._late("during a model call") from None
            raise

    async def _streamed(self, request: ModelRequest, stream: TextStream) -> ModelStep:
        answers: list[ModelStep] = []

        async def asked() -> None:
            answers.append(await self._model.ask(request, stream.feed))
            stream.end()

        await together(asked(), stream.pump())
        return answers[0]

    def _left(self, activity: str) -> float:
        left = self._journal.seconds_left()
        if left <= 0:
            raise self._late(activity)
        return left

    def _late(self, activity: str) -> DeadlineExceeded:
        return late(self._journal, activity)


def late(journal: Journal, activity: str) -> DeadlineExceeded:
    """The error that names the limit and what was going on when it passed."""
    return DeadlineExceeded(f"the limit of {journal.record.policy.deadline_s} s for the whole run passed {activity}")
