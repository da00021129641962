"""Results nobody waits for: a handle at once, and a turn of their own, once, whatever the session does meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.turns.strategy import DELEGATED
from tests.integration.composed import SESSION, USER, Process, kind_of, last_user, process, results
from tests.integration.gate import Gate

pytestmark = pytest.mark.anyio


def front_agent(call: dict[str, Any] | Callable[[str], dict[str, Any]], children: Any) -> Any:
    """Delegates for messages that begin with ``go``; says what it read otherwise."""

    def rule(request: ModelRequest) -> Any:
        if kind_of(request) is RunKind.CHILD:
            return children(request)
        words = last_user(request)
        if words.startswith("[Results of"):
            return said("told the user")
        if results(request):
            return said("they are at work")
        if words.startswith("go"):
            return called(("delegate_task", call(words) if callable(call) else call))
        return said("an ordinary answer")

    return rule


def handle_of(one: Process) -> dict[str, Any]:
    """The newest handle the front agent read."""
    texts = [text for request in one.model.of(RunKind.TURN) for text in results(request)]
    found: dict[str, Any] = json.loads(texts[-1])
    return found


async def told(one: Process, count: int = 1, session: str = SESSION) -> list[dict[str, Any]]:
    """The turns of results, once there are so many."""

    async def there() -> list[dict[str, Any]] | None:
        found = [turn for turn in await one.history(session) if turn["origin"] == DELEGATED]
        return found if len(found) >= count else None

    return await eventually(there, 15.0, f"{count} turns of results")


async def test_a_background_call_answers_at_once_and_the_results_come_as_a_turn(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    call = {"tasks": [{"goal": "amber"}, {"goal": "basalt"}], "background": True}
    async with process(store_url, tmp_path, front_agent(call, gate)) as one:
        first = await one.turn("go")
        assert (first.state, first.result["text"]) == (RunState.COMPLETED, "they are at work")
        handle = handle_of(one)
        assert (handle["status"], handle["count"], handle["goals"]) == ("dispatched", 2, ["amber", "basalt"])
        await eventually(lambda: len(gate.inside) == 2)
        # A follow-up message is an ordinary turn and stops nobody (D-08).
        assert (await one.turn("also note that the venue changed")).result["text"] == "an ordinary answer"
        assert sorted(gate.inside) == ["amber", "basalt"]
        for goal in ("basalt", "amber"):
            gate.let_go(goal)
        [turn] = await told(one)
        assert (turn["turn"], turn["state"], turn["user"], turn["text"]) == (3, "completed", "", "told the user")
        head, _, body = turn["opening"].partition("\n\n")
        assert handle["delegation_id"] in head
        found = json.loads(body.rpartition("\n\n")[0])["results"]
        assert [(entry["goal"], entry["summary"]) for entry in found] == [
            ("amber", "answer amber"), ("basalt", "answer basalt")
        ]  # fmt: skip
        kinds = [kind for kind, _ in await one.events()]
        assert kinds.count(EventType.BATCH_JOINED) == 1
        assert await one.on("SMEMBERS", f"away:{SESSION}") == set()


async def test_a_wait_that_takes_too_long_becomes_a_handle_and_nothing_is_told_twice(
    store_url: str, tmp_path: Path
) -> None:
    gate = Gate()
    settings = {"delegation": {"wait_s": 1}}
    call = {"tasks": [{"goal": "amber"}, {"goal": "basalt"}]}
    async with process(store_url, tmp_path, front_agent(call, gate), **settings) as one:
        run = await one.say("go")
        await eventually(lambda: len(gate.inside) == 2)
        gate.let_go("amber")
        first = await one.ended(run)
        assert (first.state, first.result["text"]) == (RunState.COMPLETED, "they are at work")
        assert "have not finished yet" in handle_of(one)["note"]
        assert (EventType.BATCH_DETACHED in [kind for kind, _ in await one.events()]) is True
        gate.let_go("basalt")
        [turn] = await told(one)
        assert "answer amber" in turn["opening"]
        assert "answer basalt" in turn["opening"]
        assert len(await one.history()) == 2


async def test_results_for_a_busy_session_wait_for_their_turn(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    busy = Gate()

    def rule(request: ModelRequest) -> Any:
        if kind_of(request) is RunKind.TURN and last_user(request).startswith("busy"):
            return busy(request)
        return front_agent({"goal": "amber", "background": True}, gate)(request)

    async with process(store_url, tmp_path, rule) as one:
        await one.turn("go")
        long_turn = await one.say("busy")
        await eventually(lambda: busy.inside)
        gate.let_go("amber")
        await eventually(lambda: not gate.inside)
        await eventually(lambda: _waits(one))
        assert not (await one.base.runs.get(USER, long_turn)).state.terminal
        for goal in list(busy.inside):
            busy.let_go(goal)
        [turn] = await told(one)
        assert [entry["turn"] for entry in await one.history()] == [1, 2, 3]
        assert turn["turn"] == 3


async def _waits(one: Process) -> bool:
    return bool(await one.on("LLEN", f"inbox:{SESSION}"))


async def test_two_hundred_results_of_a_session_nobody_looks_at_are_each_told_once(
    store_url: str, tmp_path: Path
) -> None:
    """Acceptance test 7: the peer keeps fifty."""
    calls = [("delegate_task", {"goal": f"goal {n}", "background": True}) for n in range(200)]

    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            return said("done")
        if last_user(request).startswith("[Results of"):
            return said("told")
        return said("at work") if results(request) else called(*calls)

    async with process(store_url, tmp_path, rule, policies={"turn": {"deadline_s": 600}}) as one:
        await one.ended(await one.say("go"), deadline=60.0)

        async def all_told() -> list[dict[str, Any]] | None:
            found = [turn for turn in await one.history() if turn["origin"] == DELEGATED]
            return found if len(found) == 200 else None

        turns = await eventually(all_told, 100.0, "200 turns of results")
        goals = [json.loads(turn["opening"].partition("\n\n")[2].rpartition("\n\n")[0])["results"] for turn in turns]
        assert sorted(entry["goal"] for [entry] in goals) == sorted(f"goal {n}" for n in range(200))
        assert await one.on("LLEN", f"inbox:{SESSION}") == 0


async def test_a_results_turn_is_neither_reviewed_nor_remembered_as_the_users_words(
    store_url: str, tmp_path: Path
) -> None:
    call = {"goal": "amber", "background": True}
    async with process(store_url, tmp_path, front_agent(call, lambda _: said("the secret word"))) as one:
        await one.turn("go")
        await told(one)
        await eventually(lambda: _remembered(one, 2))
        kept = [json.loads(text) for text in await one.on("LRANGE", "mem:turns", 0, -1)]
        assert [(turn["user"], turn["assistant"]) for turn in kept] == [
            ("go", "they are at work"), ("", "told the user")
        ]  # fmt: skip
        await one.bell.settled()
        assert [run.spec["turn"] for run in await one.of_kind(RunKind.REVIEW)] == [1]


async def _remembered(one: Process, count: int) -> bool:
    return bool(await one.on("LLEN", "mem:turns") == count)


async def test_results_of_a_batch_that_was_cancelled_whole_tell_nothing(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    call = {"tasks": [{"goal": "amber"}, {"goal": "basalt"}], "background": True}
    async with process(store_url, tmp_path, front_agent(call, gate)) as one:
        await one.turn("go")
        await eventually(lambda: len(gate.inside) == 2)
        batch = handle_of(one)["delegation_id"]
        assert await one.base.runs.cancel_batch(USER, batch) == 2
        assert await one.base.runs.cancel_batch(USER, batch) == 0
        await eventually(lambda: not gate.inside)
        assert (await one.turn("and now?")).result["text"] == "an ordinary answer"
        assert [turn["origin"] for turn in await one.history()] == ["user", "user"]


async def test_one_cancelled_child_of_a_background_batch_is_told_as_interrupted(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    call = {"tasks": [{"goal": "amber"}, {"goal": "basalt"}], "background": True}
    async with process(store_url, tmp_path, front_agent(call, gate)) as one:
        await one.turn("go")
        await eventually(lambda: len(gate.inside) == 2)
        batch = handle_of(one)["delegation_id"]
        await one.base.runs.cancel(USER, f"{batch}.0")
        gate.let_go("basalt")
        [turn] = await told(one)
        found = json.loads(turn["opening"].partition("\n\n")[2].rpartition("\n\n")[0])["results"]
        assert [entry["status"] for entry in found] == ["interrupted", "completed"]


async def test_stopping_a_session_ends_its_background_work_and_what_waits_without_a_word_later(
    store_url: str, tmp_path: Path
) -> None:
    gate = Gate()
    busy = Gate()

    def rule(request: ModelRequest) -> Any:
        if kind_of(request) is RunKind.TURN and last_user(request).startswith("busy"):
            return busy(request)
        call = {"tasks": [{"goal": "amber"}, {"goal": "basalt"}], "background": True}
        return front_agent(call, gate)(request)

    async with process(store_url, tmp_path, rule) as one:
        await one.turn("go")
        await eventually(lambda: len(gate.inside) == 2)
        gate.let_go("amber")
        await eventually(lambda: gate.inside == ["basalt"])
        await one.say("busy")
        await eventually(lambda: busy.inside)
        waiting = await one.say("waits")
        assert await one.base.sessions.stop(USER, SESSION) == 3
        assert await one.base.sessions.stop(USER, SESSION) == 0
        await eventually(lambda: not gate.inside and not busy.inside)
        assert (await one.turn("and now?")).result["text"] == "an ordinary answer"
        history = await one.history()
        assert [(turn["user"], turn["state"]) for turn in history] == [
            ("go", "completed"), ("busy", "cancelled"), ("waits", "cancelled"), ("and now?", "completed")
        ]  # fmt: skip
        assert waiting in [turn["run"] for turn in history]
        states = {run.spec["goal"]: run.state for run in await one.of_kind(RunKind.CHILD)}
        assert states == {"amber": RunState.COMPLETED, "basalt": RunState.CANCELLED}


async def test_a_message_that_still_waits_is_withdrawn_and_never_asked(store_url: str, tmp_path: Path) -> None:
    busy = Gate()

    def rule(request: ModelRequest) -> Any:
        return busy(request) if last_user(request).startswith("busy") else said("an ordinary answer")

    async with process(store_url, tmp_path, rule) as one:
        long_turn = await one.say("busy")
        await eventually(lambda: busy.inside)
        waiting = await one.say("never mind")
        assert await one.base.runs.cancel(USER, waiting) is RunState.CANCELLED
        assert await one.base.runs.cancel(USER, waiting) is RunState.CANCELLED
        for goal in list(busy.inside):
            busy.let_go(goal)
        await one.ended(long_turn)
        await one.turn("next")
        assert not any("never mind" in last_user(request) for request in one.model.requests)
        assert [turn["user"] for turn in await one.history()] == ["busy", "next"]
        assert ("turn.ended", waiting) in [(kind, data.get("run")) for kind, data in await one.events()]
