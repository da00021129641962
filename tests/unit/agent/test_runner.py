"""One process executing runs: claims, ends, aborts, shutdown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from hermes_tasks.agent.asking import Sleep
from hermes_tasks.agent.loop import Surroundings
from hermes_tasks.agent.runner import Runner
from hermes_tasks.contracts.errors import InvalidRequest, LeaseLost, RunCancelled, StoreUnavailable
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.strategy import Event, Lost, Plan
from hermes_tasks.contracts.tools import ProgressNote, ToolOutput
from hermes_tasks.testing.journal import Faults, MemoryJournal, MemoryRun, memory_run
from hermes_tasks.testing.model import AnyReply, ScriptedModel, called, said
from tests.unit.agent.doubles import Plain, Tools, World, plan_of, text_events, usual_tools

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=10, deadline_s=600)


class Work:
    """A strategy that does nothing but count."""

    kind = RunKind.CHILD

    def __init__(self, tools: Tools, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        self._tools = tools
        self._prepare = prepare
        self.finished: list[Outcome] = []
        self.broken_end = False

    async def prepare(self, journal: Journal) -> Plan:
        if self._prepare is not None:
            await self._prepare()
        return plan_of(journal.record.policy, self._tools)

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:
        return text_events(note)

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        if self.broken_end:
            raise KeyError("finish")
        self.finished.append(outcome)
        assert isinstance(journal, MemoryJournal)
        await journal.finish(outcome)


class OneRun:
    """Gives one run to whoever asks first."""

    def __init__(self, run: MemoryRun, faults: Faults | None = None, seconds: float = 600.0) -> None:
        self.run = run
        self.journal: MemoryJournal | None = None
        self.lost: Lost | None = None
        self.lose_during_claim = False
        self._faults = faults
        self._seconds = seconds

    async def claim(self, user: str, run_id: str, lost: Lost) -> MemoryJournal | None:
        await asyncio.sleep(0)
        if (user, run_id) != (self.run.record.user, self.run.record.id) or self.run.state is not RunState.QUEUED:
            return None
        self.journal = MemoryJournal(self.run, self._faults, seconds=self._seconds)
        self.lost = lost
        if self.lose_during_claim:
            lost(LeaseLost("already gone"))
            await asyncio.sleep(0)
        return self.journal


class Rig:
    def __init__(
        self,
        replies: Sequence[AnyReply],
        *,
        act: Callable[[object], Awaitable[ToolOutput]] | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        faults: Faults | None = None,
        seconds: float = 600.0,
    ) -> None:
        self.world = World(memory_run(POLICY))
        self.tools = usual_tools(self.world) if act is None else Tools(Plain("stuck", self.world, act=act))
        self.model = ScriptedModel(replies)
        self.strategy = Work(self.tools, prepare)
        self.runs = OneRun(self.world.run, faults, seconds)
        self.runner = self.runner_for([self.strategy])

    def runner_for(self, strategies: Sequence[Work], sleep: Sleep | None = None) -> Runner:
        around = Surroundings(sleep=sleep or self.world.sleep)
        return Runner(strategies, self.runs, self.model, self.tools, lambda _: Path("unused"), around)

    async def execute(self) -> Outcome | None:
        return await self.runner.execute("ann", "run-1")

    @property
    def journal(self) -> MemoryJournal:
        assert self.runs.journal is not None
        return self.runs.journal


class Stuck:
    """A tool that never ends, and knows when it began and was ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, args: object) -> ToolOutput:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError


async def test_from_claim_to_end() -> None:
    rig = Rig([called(("send", {"x": 1})), said("done")])
    outcome = await rig.execute()
    assert outcome is not None
    assert outcome.text == "done"
    assert rig.strategy.finished == [outcome]
    assert rig.world.run.state is RunState.COMPLETED
    assert rig.runner.running == frozenset()
    assert not rig.journal.released
    assert await rig.execute() is None  # a doubled doorbell finds nothing to do
    rig.model.check()


async def test_nothing_to_claim() -> None:
    assert await Rig([]).runner.execute("bob", "run-1") is None


async def test_a_waiting_run_is_neither_finished_nor_given_back() -> None:
    rig = Rig([called(("delegate_task", {"x": 1}))])
    outcome = await rig.execute()
    assert outcome is not None
    assert outcome.state is RunState.WAITING
    assert rig.strategy.finished == []
    assert not rig.journal.released


async def test_two_doorbells_at_once_execute_once() -> None:
    rig = Rig([called(("send", {"x": 1})), said("done")])
    results = await asyncio.gather(rig.execute(), rig.execute())
    assert sorted(result is None for result in results) == [False, True]
    assert rig.world.effects == ["send 1"]


async def test_a_fault_of_ours_is_recorded_and_not_repeated() -> None:
    async def broken() -> None:
        raise KeyError("secret detail")

    rig = Rig([], prepare=broken)
    outcome = await rig.execute()
    assert outcome is not None
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.INTERNAL_ERROR)
    assert outcome.error == "fault inside the worker (KeyError); its log has the story of run run-1"
    assert rig.world.run.outcome == outcome


async def test_what_the_strategy_refuses_is_the_reason() -> None:
    async def refuse() -> None:
        raise InvalidRequest("the session is gone")

    outcome = await Rig([], prepare=refuse).execute()
    assert outcome is not None
    assert (outcome.state, outcome.error) == (RunState.FAILED, "invalid: the session is gone")


async def test_preparing_has_a_deadline_too() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    outcome = await Rig([], prepare=hang, seconds=0.02).execute()
    assert outcome is not None
    assert outcome.state is RunState.TIMED_OUT
    assert "while the run was prepared" in (outcome.error or "")


@pytest.mark.parametrize("faults", [Faults(lose_at=2), Faults(cancel_at=2)])
async def test_a_lost_run_is_left_quietly(faults: Faults) -> None:
    rig = Rig([called(("send", {"x": 1}))], faults=faults)
    assert await rig.execute() is None
    assert rig.strategy.finished == []
    assert not rig.journal.released


async def test_a_run_is_put_off_while_the_store_is_away() -> None:
    async def away() -> None:
        raise StoreUnavailable("no answer")

    rig = Rig([], prepare=away)
    assert await rig.execute() is None
    assert rig.strategy.finished == []
    assert rig.world.waits == [5.0]  # at once it would come back at once
    assert rig.journal.released


async def test_a_kind_nobody_serves_is_put_off() -> None:
    rig = Rig([])
    rig.runner = rig.runner_for([])
    with pytest.raises(InvalidRequest, match="no strategy for runs of kind child"):
        await rig.execute()
    assert rig.world.waits == [5.0]
    assert rig.journal.released


async def test_an_end_that_cannot_be_written_is_put_off() -> None:
    rig = Rig([said("done")])
    rig.strategy.broken_end = True
    with pytest.raises(KeyError):
        await rig.execute()
    assert rig.world.waits == [5.0]
    assert rig.journal.released
    assert rig.runner.running == frozenset()


async def test_cancelled_while_put_off_it_is_still_given_back() -> None:
    rig = Rig([said("done")])
    rig.strategy.broken_end = True
    pausing = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    rig.runner = rig.runner_for([rig.strategy], sleep)
    task = asyncio.create_task(rig.execute())
    await pausing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.journal.released


@pytest.mark.parametrize("error", [LeaseLost("renewal refused"), RunCancelled("stop")])
async def test_a_lost_lease_stops_the_tool_within_a_second(error: LeaseLost | RunCancelled) -> None:
    stuck = Stuck()
    rig = Rig([called(("stuck", {}))], act=stuck)
    task = asyncio.create_task(rig.execute())
    await stuck.began.wait()
    assert rig.runner.running == {"run-1"}
    assert rig.runs.lost is not None
    threading.Thread(target=rig.runs.lost, args=(error,)).start()  # as the renewer does, from its own thread
    async with asyncio.timeout(1):
        assert await task is None
    assert stuck.ended.is_set()
    assert len(rig.world.run.stored) == 2
    assert rig.strategy.finished == []
    assert not rig.journal.released


async def test_a_cancel_notice_for_another_run_changes_nothing() -> None:
    async def aborts(args: object) -> ToolOutput:
        rig.runner.abort("another-run", RunCancelled("stop"))
        for _ in range(10):
            await asyncio.sleep(0)
        return ToolOutput("ok")

    rig = Rig([called(("stuck", {})), said("done")], act=aborts)
    outcome = await rig.execute()
    assert outcome is not None
    assert outcome.text == "done"


async def test_a_cancel_notice_stops_the_run() -> None:
    stuck = Stuck()
    rig = Rig([called(("stuck", {}))], act=stuck)
    task = asyncio.create_task(rig.execute())
    await stuck.began.wait()
    threading.Thread(target=rig.runner.abort, args=("run-1", RunCancelled("stop"))).start()
    async with asyncio.timeout(1):
        assert await task is None
    assert rig.runner.running == frozenset()


async def test_a_lease_lost_before_the_work_began() -> None:
    rig = Rig([])
    rig.runs.lose_during_claim = True
    assert await rig.execute() is None
    assert rig.strategy.finished == []


async def test_abort_without_any_run_does_nothing() -> None:
    Rig([]).runner.abort("run-1", RunCancelled("stop"))


async def test_shutdown_stops_at_the_next_step_and_gives_the_lease_back() -> None:
    may_end = asyncio.Event()
    began = asyncio.Event()

    async def slow(args: object) -> ToolOutput:
        began.set()
        await may_end.wait()
        return ToolOutput("finished")

    rig = Rig([called(("stuck", {}))], act=slow)
    task = asyncio.create_task(rig.execute())
    await began.wait()
    stopping = asyncio.create_task(rig.runner.shut_down(grace_s=60))
    await asyncio.sleep(0)
    assert not stopping.done()
    may_end.set()
    outcome = await task
    await stopping
    assert outcome is not None
    assert outcome.state is RunState.QUEUED
    assert rig.journal.released
    assert len(rig.world.run.stored) == 3  # the tool's result is not lost
    assert await rig.execute() is None  # and nothing new is begun


async def test_shutdown_cuts_off_what_does_not_stop() -> None:
    stuck = Stuck()
    rig = Rig([called(("stuck", {}))], act=stuck)
    task = asyncio.create_task(rig.execute())
    await stuck.began.wait()
    async with asyncio.timeout(5):
        await rig.runner.shut_down(grace_s=0.01)
    assert stuck.ended.is_set()
    assert await task is None
    assert rig.journal.released
    assert rig.world.run.state is RunState.QUEUED
    await rig.runner.shut_down(grace_s=0.01)


async def test_shutdown_during_a_claim_gives_it_back() -> None:
    rig = Rig([])
    task = asyncio.create_task(rig.execute())
    await asyncio.sleep(0)
    await rig.runner.shut_down(grace_s=5)
    outcome = await task
    assert outcome is not None
    assert outcome.state is RunState.QUEUED
    assert rig.journal.released


async def test_cancelling_the_caller_gives_the_lease_back() -> None:
    stuck = Stuck()
    rig = Rig([called(("stuck", {}))], act=stuck)
    task = asyncio.create_task(rig.execute())
    await stuck.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.journal.released
    assert stuck.ended.is_set()
