"""One model answer, however often it must be asked for: retries, back-off, deadline, streaming."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.agent.streaming import TextStream
from hermes_tasks.agent.together import together
from hermes_tasks.agent.verdict import classified
from hermes_tasks.contracts.errors import (
    DeadlineExceeded,
    ModelUnavailable,
    RateLimited,
    Retryable,
    StoreFull,
    StoreUnavailable,
)
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.models import Message, ModelPort, ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.contracts.strategy import Plan
from hermes_tasks.observe.logging import get_logger

#: That many failed calls in a row end the run; they are not iterations.
MAX_FAILURES: Final = 5
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0

_log = get_logger(__name__)

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the model on behalf of one run."""

    journal: Journal
    plan: Plan
    model: ModelPort
    sleep: Sleep

    async def ask(
        self,
        conversation: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        stream: TextStream | None = None,
    ) -> ModelStep:
        """One whole answer. Nothing is stored here; asked twice, it is paid twice.

        Args:
            stream: takes the text as it comes; None for answers nobody watches.

        Raises:
            DeadlineExceeded: the run's deadline passed while waiting.
            ModelUnavailable, RateLimited: five calls in a row failed, or the wait asked for ends after the deadline.
            ModelRefused, ContextTooLong, BadModelAnswer: at once; asking again cannot help.
            LeaseLost, RunCancelled, StoreUnavailable: as the journal raises them.
        """
        failures = 0
        while True:
            await self.journal.ready()
            try:
                return await self._once(conversation, tools, stream)
            except (StoreUnavailable, StoreFull):
                raise
            except Retryable as error:
                failures += 1
                _log.warning("model call failed", model=self.plan.model, failures=failures, reason=classified(error))
                if failures == MAX_FAILURES:
                    raise ModelUnavailable(
                        f"{failures} calls in a row failed, the last one: {classified(error)}"
                    ) from error
                await self._wait(failures, error)
            if stream is not None:
                await stream.restart()

    async def _once(
        self, conversation: Sequence[Message], tools: Sequence[Mapping[str, Any]], stream: TextStream | None
    ) -> ModelStep:
        left = self._left("before a model call")
        request = ModelRequest(
            model=self.plan.model,
            messages=conversation,
            tools=tools,
            timeout_s=min(self.plan.call_timeout_s, left),
            max_output_tokens=self.plan.max_output_tokens,
        )
        try:
            async with asyncio.timeout(left) as limit:
                if stream is None:
                    return await self.model.ask(request)
                return await self._streamed(request, stream)
        except (TimeoutError, ModelUnavailable):
            # The client's own limit is the same moment: whichever is first, the deadline is what ended the call.
            if limit.expired() or self.journal.seconds_left() <= 0:
                raise self._late("during a model call") from None
            raise

    async def _streamed(self, request: ModelRequest, stream: TextStream) -> ModelStep:
        answers: list[ModelStep] = []

        async def asked() -> None:
            answers.append(await self.model.ask(request, stream.feed))
            stream.end()

        await together(asked(), stream.pump())
        return answers[0]

    async def _wait(self, failures: int, error: Retryable) -> None:
        left = self._left("between two model calls")
        spread = int(derived_id(self.journal.record.id, failures)[:4], 16) / 0xFFFF  # runs that failed together part
        wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1)) * (0.5 + spread / 2)
        if isinstance(error, RateLimited) and error.retry_after is not None:
            wait = max(wait, error.retry_after.total_seconds())
            if wait >= left:
                raise RateLimited(
                    f"the provider asks to wait {wait:.0f} s, but the run's deadline is in {left:.0f} s",
                    retry_after=error.retry_after,
                ) from error
        await self.sleep(min(wait, left))

    def _left(self, activity: str) -> float:
        left = self.journal.seconds_left()
        if left <= 0:
            raise self._late(activity)
        return left

    def _late(self, activity: str) -> DeadlineExceeded:
        return late(self.journal, activity)


def late(journal: Journal, activity: str) -> DeadlineExceeded:
    """The error that names the limit and what was going on when it passed."""
    return DeadlineExceeded(f"the limit of {journal.record.policy.deadline_s} s for the whole run passed {activity}")
