"""Several messages, several processes, one session: one turn at a time, each answered once, whatever breaks off."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hermes_tasks.agent.transcript import INTERRUPTED
from hermes_tasks.contracts.errors import Conflict
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, Usage
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from tests.integration.composed import QUICK, SESSION, USER, Process, RuledModel, kind_of, last_user, process, results

pytestmark = pytest.mark.anyio


def echo(request: ModelRequest) -> ModelStep:
    return said(f"done: {last_user(request).partition(chr(10))[0]}")


async def test_two_messages_at_once_through_two_entry_points_are_answered_in_order(
    store_url: str, tmp_path: Path
) -> None:
    async def slow_first(request: ModelRequest) -> ModelStep:
        if last_user(request).startswith("first"):
            await second_is_there.wait()
        return echo(request)

    second_is_there = asyncio.Event()
    model = RuledModel(slow_first)
    async with process(store_url, tmp_path, model) as one, process(store_url, tmp_path, model) as two:
        first = await one.say("first: add milk")
        second = await two.say("second: add eggs")
        third = await one.say("third: add tea")
        assert (await two.base.runs.recent(USER))[0].id == first, "no run exists for a message that waits"
        second_is_there.set()
        for run in (first, second, third):
            record = await eventually(lambda run=run: finished(two, run))
            assert record.state is RunState.COMPLETED
        turns = await one.history()
        assert [turn["user"] for turn in turns] == ["first: add milk", "second: add eggs", "third: add tea"]
        assert [turn["turn"] for turn in turns] == [1, 2, 3]
        assert [turn["text"] for turn in turns] == [f"done: {turn['user']}" for turn in turns]
        kinds = [kind for kind, _ in await one.events() if kind.startswith("turn.")]
        assert kinds == [EventType.TURN_STARTED, EventType.TURN_ENDED] * 3, "turns do not overlap"
    requests = model.of(RunKind.TURN)
    assert len(requests) == 3
    assert [message["role"] for message in requests[-1].messages] == ["system", *["user", "assistant"] * 2, "user"]


async def finished(one: Process, run: str) -> RunRecord | None:
    """The record, once the run exists and has ended."""
    if not await one.on("EXISTS", f"run:{run}"):
        return None
    record = await one.base.runs.get(USER, run)
    return record if record.state.terminal else None


async def test_the_same_request_sent_twice_is_answered_once(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, echo) as one, process(store_url, tmp_path, echo) as two:
        first, again = await asyncio.gather(one.say("add milk", key="k1"), two.say("add milk", key="k1"))
        assert first == again
        await eventually(lambda: finished(one, first))
        assert await two.say("add milk", key="k1") == first
        with pytest.raises(Conflict):
            await two.say("add eggs", key="k1")
        assert len(await one.history()) == 1
        assert len(one.model.of(RunKind.TURN)) + len(two.model.of(RunKind.TURN)) == 1


async def test_doubled_and_late_doorbells_change_nothing(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, echo, keeps=("turn",)) as one:
        run = await one.say("hello")
        [ring] = one.bell.rings
        for _ in range(4):
            await one.bell.ring([ring])
        assert one.bell.deliver("turn") == 5
        await one.ended(run)
        one.bell.keeps.clear()
        await one.bell.ring([ring])
        await one.bell.settled()
        assert len(one.model.of(RunKind.TURN)) == 1
        assert len(await one.history()) == 1


async def test_a_message_whose_doorbell_is_lost_is_answered_by_recovery(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, echo, keeps=("turn",), **QUICK) as one:
        await one.base.sessions.post(USER, SESSION, "hello", local=True)  # its front died before it began
        assert one.bell.rings == []
        await eventually(lambda: one.bell.rings)
        one.bell.deliver()
        await eventually(lambda: one.model.of(RunKind.TURN))


async def test_an_interrupted_turn_then_go_on(store_url: str, tmp_path: Path) -> None:
    """Stop is pressed when one of two tools has finished; every call has one result in the next request."""
    at_work = asyncio.Event()

    async def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            at_work.set()
            await asyncio.Event().wait()
        if last_user(request).startswith("go on"):
            return said("going on")
        return called(
            ("memory", {"target": "memory", "action": "add", "content": "likes tea"}),
            ("delegate_task", {"goal": "never ends"}),
        )

    async with process(store_url, tmp_path, rule) as one:
        run = await one.say("do both")
        await eventually(at_work.is_set)
        await one.reached(run, RunState.WAITING)
        assert await one.base.runs.cancel(USER, run) is RunState.CANCELLED
        [child] = await one.of_kind(RunKind.CHILD)
        assert (await one.ended(child.id)).state is RunState.CANCELLED
        assert (await one.turn("go on")).result["text"] == "going on"
        request = one.model.of(RunKind.TURN)[-1]
        _, _, asked, *told, note, last = request.messages
        ids = [call["id"] for call in asked["tool_calls"]]
        assert [message["tool_call_id"] for message in told] == ids, "each call id has exactly one result"
        assert json.loads(told[0]["content"])["success"] is True
        assert told[1]["content"] == INTERRUPTED
        assert note["role"] == "assistant"
        assert "not completed: cancelled" in str(note["content"])
        assert str(last["content"]).startswith("go on")


async def test_a_dead_process_leaves_its_turn_to_another(store_url: str, tmp_path: Path) -> None:
    """The holder stops renewing without giving its lease back; what it had stored is not paid for again."""
    stuck = asyncio.Event()

    async def rule(request: ModelRequest) -> ModelStep:
        if not results(request):
            call = ("memory", {"target": "memory", "action": "add", "content": "likes tea"})
            return called(call, tokens=(30, 5))
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return said("noted", tokens=(40, 1))

    model = RuledModel(rule)
    async with (
        process(store_url, tmp_path, model, **QUICK) as dead,
        process(store_url, tmp_path, model, **QUICK) as two,
    ):
        run = await dead.say("remember")
        await eventually(stuck.is_set)
        dead.worker.renewer.stop()
        record = await two.ended(run)
        assert (record.state, record.result["text"]) == (RunState.COMPLETED, "noted")
        assert record.usage == Usage(input_tokens=70, output_tokens=6, calls=2)
        assert len(model.of(RunKind.TURN)) == 3, "one model answer in flight was paid twice, no stored one"
        assert (await two.base.memory.document(USER, Document.MEMORY)).entries == ("likes tea",)


async def test_a_failed_turn_is_neither_synced_nor_recalled(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("")) as one:
        record = await one.turn("tell me of the Osprey")
        assert (record.state, record.exit_reason) == (RunState.FAILED, "empty_answer")
        await one.bell.settled()
        assert await one.base.channel.state(USER, SESSION) == (1, 1), "its place in the channel is taken and passed"
        assert await one.base.memory.turns(USER, 10) == []
        assert await one.of_kind(RunKind.REVIEW) == []
        ended = [data for kind, data in await one.events() if kind == EventType.TURN_ENDED]
        assert [(data["state"], data["text"]) for data in ended] == [("failed", "")]
