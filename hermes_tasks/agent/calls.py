"""The tool calls of one stored answer: begun, run side by side, and each given exactly one stored result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from hermes_tasks.agent.asking import Sleep, late
from hermes_tasks.agent.open_calls import Job, OpenCalls, open_calls
from hermes_tasks.agent.ports import Registry
from hermes_tasks.agent.progress import Progress, last_progress
from hermes_tasks.agent.streaming import Tell
from hermes_tasks.agent.together import together
from hermes_tasks.agent.verdict import one_line
from hermes_tasks.contracts.errors import (
    DeadlineExceeded,
    HermesTasksError,
    LeaseLost,
    RunCancelled,
    StoreUnavailable,
)
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import StartedStep, ToolStep
from hermes_tasks.contracts.tools import (
    DeferredTool,
    ProgressNote,
    Slot,
    StoredTool,
    Tool,
    ToolContext,
    ToolOutput,
)
from hermes_tasks.observe.logging import get_logger

_NOT_THE_TOOLS: Final = (LeaseLost, RunCancelled, DeadlineExceeded, StoreUnavailable)
_LOOK_AGAIN_S: Final = (0.05, 1.0)

_log = get_logger(__name__)

Fit = Callable[[str, str], Awaitable[str]]


class Calls:
    """Runs tool calls for one run.

    Args:
        fit: makes a result safe and short enough for the model: (key within the run, text) to text.
        tell: hands a note to the watchers.
        sleep: waits that many seconds.
        context_left: tokens that still fit into the run's context.
    """

    def __init__(
        self,
        journal: Journal,
        policy: Policy,
        registry: Registry,
        context: ToolContext,
        fit: Fit,
        tell: Tell,
        sleep: Sleep,
        context_left: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._policy = policy
        self._registry = registry
        self._context = context
        self._fit = fit
        self._tell = tell
        self._sleep = sleep
        self._context_left = context_left
        self._running: list[str] = []

    async def settle(self, progress: Progress) -> bool:
        """Give every open call of that answer a result.

        Works from any point at which an earlier holder stopped: what has a result is left alone, what waits for a
        batch is collected, what began without an end is run again if that is harmless and marked ``unknown`` if not.

        Returns:
            False when the run was stored as ``waiting``: stop, nothing may be written any more.

        Raises:
            DeadlineExceeded: names the tools that were running; they are cancelled.
        """
        work = open_calls(progress, self._registry, self._policy)
        for step in work.settled:
            content = await self._fit(f"{progress.index}-{step.call}", step.content)
            await self._journal.append(step.model_copy(update={"content": content}))
        try:
            async with asyncio.timeout(max(0.0, self._journal.seconds_left())) as limit:
                for job in work.deferred:
                    await self._start(progress.index, job)
                await self._run(progress.index, work)
        except TimeoutError:
            if limit.expired():
                raise late(self._journal, f"while {', '.join(self._running) or 'a tool'} was running") from None
            raise
        return await self._collect(progress.index)

    async def _run(self, index: int, work: OpenCalls) -> None:
        if work.fresh:
            await self._journal.ready()
            await self._journal.append(StartedStep(calls=tuple(work.fresh)))
        jobs = [self._run_plain(index, job) for job in work.plain]
        if work.stored:
            jobs.append(self._run_stored(index, work.stored))
        await together(*jobs)

    async def _run_plain(self, index: int, job: Job[Tool]) -> None:
        await self._journal.ready()
        await self._begin(index, job.tool.name)
        output = await self._guarded(job.tool.name, job.tool.run(self._now(), job.args))
        await self._finish(index, job.number, job.tool.name, output)

    async def _run_stored(self, index: int, jobs: Sequence[Job[StoredTool]]) -> None:
        """One after the other: the second of two writes must find what the first wrote."""
        for job in jobs:

            def act(slot: Slot, job: Job[StoredTool] = job) -> Awaitable[ToolOutput | None]:
                return job.tool.run_stored(self._now(), job.args, slot)

            await self._in_slot(index, job.number, job.tool.name, act)

    async def _start(self, index: int, job: Job[DeferredTool]) -> None:
        def act(slot: Slot) -> Awaitable[ToolOutput | None]:
            return job.tool.start(self._now(), job.args, job.number, slot)

        await self._in_slot(index, job.number, job.tool.name, act)

    async def _in_slot(
        self, index: int, number: int, name: str, act: Callable[[Slot], Awaitable[ToolOutput | None]]
    ) -> None:
        await self._journal.ready()
        await self._begin(index, name)
        async with self._journal.slot(number, name) as slot:
            output = await self._guarded(name, act(slot))
        now = last_progress(self._journal.steps)
        if now is not None and number in now.results:
            await self._end(index, name, now.results[number].status)
        elif now is None or number not in now.batches:
            await self._finish(index, number, name, output)

    async def _collect(self, index: int) -> bool:
        """Wait for the batches of the answer, here or (returning False) as a stored run that holds no slot."""
        pause, longest = _LOOK_AGAIN_S
        while True:
            for number, batch in self._waiting().items():
                await self._collect_one(index, number, batch)
            if not self._waiting():
                return True
            if await self._journal.suspend():
                return False
            if self._journal.seconds_left() <= 0:
                raise late(self._journal, "while sub-agents were at work")
            await self._sleep(pause)  # nothing pending, yet nothing to collect: a join is being written
            pause = min(longest, pause * 2)

    def _waiting(self) -> dict[int, str]:
        progress = last_progress(self._journal.steps)
        if progress is None:
            return {}
        return {number: progress.batches[number] for number in progress.open_calls if number in progress.batches}

    async def _collect_one(self, index: int, number: int, batch: str) -> None:
        progress = last_progress(self._journal.steps)
        if progress is None:
            return
        call = progress.answer.calls[number]
        resolved = self._registry.resolve(call, self._policy)
        if isinstance(resolved, ToolOutput) or not isinstance(resolved.tool, DeferredTool):
            text = f"{call.name} is no longer offered, so the results of batch {batch} cannot be read here"
            await self._finish(index, number, call.name, ToolOutput(text, error=True))
            return
        context = replace(self._now(), context_left=self._context_left())
        output = await self._guarded(call.name, resolved.tool.collect(context, batch))
        if output is not None:
            await self._finish(index, number, call.name, output, whole=True)

    async def _guarded(self, name: str, work: Awaitable[ToolOutput | None]) -> ToolOutput | None:
        try:
            return await work
        except _NOT_THE_TOOLS:
            raise
        except HermesTasksError as error:
            return ToolOutput(one_line(str(error)), error=True)
        except Exception as error:  # noqa: BLE001 - around one call: a tool's bug must not cost the run what it did so far
            _log.exception("tool failed inside", tool=name)
            text = (
                f"{name} failed inside ({type(error).__name__}). That is a fault of the tool, not of your call: "
                "try another way, or say that it failed."
            )
            return ToolOutput(text, error=True)

    async def _begin(self, index: int, name: str) -> None:
        self._running.append(name)
        await self._tell(ProgressNote(kind="tool_started", step=index, name=name))

    async def _finish(
        self, index: int, number: int, name: str, output: ToolOutput | None, *, whole: bool = False
    ) -> None:
        """Store a result. ``whole``: the tool bounded it itself, and cut elsewhere it would no longer parse."""
        if output is None:
            output = ToolOutput(f"{name} gave no result and changed nothing", error=True)
        content = output.content if whole else await self._fit(f"{index}-{number}", output.content)
        step = ToolStep(
            call=number, name=name, content=content or "(no output)", status="error" if output.error else "ok"
        )
        await self._journal.append(step)
        await self._end(index, name, step.status)

    async def _end(self, index: int, name: str, status: str) -> None:
        if name in self._running:
            self._running.remove(name)
        await self._tell(ProgressNote(kind="tool_ended", step=index, name=name, status=status))

    def _now(self) -> ToolContext:
        return replace(self._context, seconds_left=self._journal.seconds_left())
