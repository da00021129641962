"""Executes runs in one process: claims, advances, ends or gives them back, and stops them at once when told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hermes_tasks.agent.asking import late
from hermes_tasks.agent.loop import Surroundings, advance
from hermes_tasks.agent.ports import Registry
from hermes_tasks.agent.verdict import classified, failed, timed_out
from hermes_tasks.contracts.errors import (
    DeadlineExceeded,
    HermesTasksError,
    InvalidRequest,
    LeaseLost,
    RunCancelled,
    StoreFull,
    StoreUnavailable,
)
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.models import ModelPort
from hermes_tasks.contracts.runs import Outcome, RunRecord
from hermes_tasks.contracts.strategy import Runs, Strategy
from hermes_tasks.contracts.tools import ToolContext
from hermes_tasks.observe.logging import about, get_logger

#: Before a run whose end could not be written is given back.
_PAUSE_S: Final = 5.0
#: How long giving a lease back may take; afterwards it simply runs out.
_RELEASE_S: Final = 2.0
_NOT_OURS: Final = (LeaseLost, RunCancelled)
_STORE_AWAY: Final = (StoreUnavailable, StoreFull)

_log = get_logger(__name__)


class _Execution:
    """One claimed run in this process."""

    def __init__(self, run_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.run_id = run_id
        self.error: HermesTasksError | None = None
        self._loop = loop
        self._task: asyncio.Task[Outcome | None] | None = None

    def lost(self, error: HermesTasksError) -> None:
        """Stop this execution; may be called from any thread."""
        with suppress(RuntimeError):  # the loop is closed: there is nothing left to stop
            self._loop.call_soon_threadsafe(self.stop, error)

    def stop(self, error: HermesTasksError | None) -> None:
        """Cancel its task, in the loop's own thread. ``error`` None = the lease is still ours."""
        self.error = self.error or error
        if self._task is not None:
            self._task.cancel()

    async def run(self, work: Any) -> Outcome | None:
        self._task = asyncio.create_task(work, name=f"run {self.run_id}")
        if self.error is not None:
            self._task.cancel()
        return await self._task


class Runner:
    """Executes runs of every kind that has a strategy here. One per process, on one event loop.

    Args:
        workspace: the directory for the tools of a run.
        around: sleep, spill; its ``stopping`` is replaced by this runner's own.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        runs: Runs,
        model: ModelPort,
        registry: Registry,
        workspace: Callable[[RunRecord], Path],
        around: Surroundings | None = None,
    ) -> None:
        around = around or Surroundings()
        self._strategies = {strategy.kind: strategy for strategy in strategies}
        self._runs = runs
        self._model = model
        self._registry = registry
        self._workspace = workspace
        self._around = replace(around, stopping=lambda: self._stopping)
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._executions: set[_Execution] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> frozenset[str]:
        """Ids of the runs this process executes now."""
        return frozenset(execution.run_id for execution in self._executions)

    async def execute(self, user: str, run_id: str) -> Outcome | None:
        """Claim the run and bring it to its end, to ``waiting``, or back to ``queued`` when the worker stops.

        Returns:
            The outcome as it was stored, or None when there was nothing to do or the run is not ours any more.

        Called twice for one run, the second call finds it claimed and does nothing. A fault inside ends the run
        ``failed``; only when its end cannot be written it is given back as it is.

        Raises:
            InvalidRequest: no strategy here serves its kind.
            Exception: whatever the strategy's ``finish`` raises beside the errors of its journal.
        """
        if self._stopping:
            return None
        self._loop = asyncio.get_running_loop()
        execution = _Execution(run_id, self._loop)
        self._executions.add(execution)
        self._idle.clear()
        try:
            journal = await self._runs.claim(user, run_id, execution.lost)
            if journal is None:
                return None
            return await self._execute(journal, execution)
        finally:
            self._executions.discard(execution)
            if not self._executions:
                self._idle.set()

    def abort(self, run_id: str, error: HermesTasksError) -> None:
        """Stop executing that run at once and write nothing more: it was cancelled or its lease is lost.

        May be called from any thread; does nothing for a run that is not executed here.
        """
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._abort, run_id, error)

    async def shut_down(self, grace_s: float = 10.0) -> None:
        """Take no new run, let each stop at its next step, and give all leases back.

        Args:
            grace_s: seconds until runs that are still inside a step are cancelled; what they began without an end
                is ``unknown`` to the next holder.

        A second call waits for the same end.
        """
        self._stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
                return
        _log.warning("runs cut off at shutdown", runs=sorted(self.running), grace_s=grace_s)
        for execution in tuple(self._executions):
            execution.stop(None)
        await self._idle.wait()

    def _abort(self, run_id: str, error: HermesTasksError) -> None:
        for execution in tuple(self._executions):
            if execution.run_id == run_id:
                execution.stop(error)

    async def _execute(self, journal: Journal, execution: _Execution) -> Outcome | None:
        record = journal.record
        with about(run=record.id, kind=record.kind, user=record.user, session=record.session, attempt=journal.attempt):
            began = time.monotonic()
            _log.info("run started", steps=len(journal.steps))
            outcome = await self._watched(journal, execution)
            if outcome is not None:
                took = round((time.monotonic() - began) * 1000)
                _log.info("run stopped", state=outcome.state, exit_reason=outcome.exit_reason, duration_ms=took)
            return outcome

    async def _watched(self, journal: Journal, execution: _Execution) -> Outcome | None:
        """Do the work, and end it quietly when it is stopped or not ours any more."""
        try:
            return await execution.run(self._work(journal))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            cancelled_from_outside = task is not None and task.cancelling() > 0
            if execution.error is None:
                await self._give_back(journal)
            else:
                _log.info("run aborted", reason=str(execution.error))
            if cancelled_from_outside:
                raise
        except _NOT_OURS as error:
            _log.info("run not ours any more", cause=type(error).__name__, reason=str(error))
        except _STORE_AWAY as error:
            _log.warning("run put off", reason=str(error))
            await self._put_off(journal)
        except Exception:  # its end could not be written, which is the one failure that cannot be recorded as its end
            await self._put_off(journal)
            raise
        return None

    async def _put_off(self, journal: Journal) -> None:
        """Give the lease back after a pause, so that what fails again fails slowly; the run's deadline ends it."""
        try:
            await self._around.sleep(_PAUSE_S)
        finally:
            await self._give_back(journal)

    async def _work(self, journal: Journal) -> Outcome:
        strategy = self._strategies.get(journal.record.kind)
        if strategy is None:
            raise InvalidRequest(f"no strategy for runs of kind {journal.record.kind}: this worker must not serve them")
        outcome = await self._outcome(journal, strategy)
        if outcome.state is RunState.QUEUED:
            await self._give_back(journal)
        elif outcome.state.terminal:
            await strategy.finish(journal, outcome)
        return outcome

    async def _outcome(self, journal: Journal, strategy: Strategy) -> Outcome:
        if self._stopping:
            return Outcome(state=RunState.QUEUED)
        try:
            async with asyncio.timeout(max(0.0, journal.seconds_left())) as limit:
                plan = await strategy.prepare(journal)
            # In a thread: it may have to be made, on a file system that several hosts share.
            workspace = await asyncio.to_thread(self._workspace, journal.record)
            context = ToolContext(journal.record, workspace, journal.seconds_left())
            return await advance(
                journal,
                plan,
                self._model,
                self._registry,
                context,
                lambda note: strategy.events(journal, note),
                self._around,
            )
        except (*_NOT_OURS, *_STORE_AWAY):
            raise
        except DeadlineExceeded as error:
            return timed_out(error, journal.steps, "")
        except HermesTasksError as error:
            return failed(ExitReason.INTERNAL_ERROR, classified(error), journal.steps)
        except Exception as error:  # noqa: BLE001 - around one run: a fault of ours ends this run, with its reason, and no other
            if isinstance(error, TimeoutError) and limit.expired():
                return timed_out(late(journal, "while the run was prepared"), journal.steps, "")
            _log.exception("run failed inside")
            reason = (
                f"fault inside the worker ({type(error).__name__}); its log has the story of run {journal.record.id}"
            )
            return failed(ExitReason.INTERNAL_ERROR, reason, journal.steps)

    async def _give_back(self, journal: Journal) -> None:
        try:
            async with asyncio.timeout(_RELEASE_S):
                await journal.release()
        except (TimeoutError, HermesTasksError) as error:
            _log.warning("lease not given back; it runs out", reason=str(error) or "timed out")
