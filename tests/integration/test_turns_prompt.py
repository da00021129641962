"""What the model reads of a turn: pinned once, byte for byte the same in every process, and grown only at its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import ModelRefused
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.memory.prefetch import NOTE
from hermes_tasks.store.keys import user_key
from hermes_tasks.testing.local_bell import LocalBell
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.worker import Parts, open_worker
from tests.integration.composed import (
    QUICK,
    SESSION,
    USER,
    Process,
    RuledModel,
    frozen_bytes,
    last_user,
    process,
    results,
    settings_for,
)

pytestmark = pytest.mark.anyio


def keeping(text: str) -> ModelStep:
    return called(("memory", {"target": "memory", "action": "add", "content": text}))


def noting(request: ModelRequest) -> ModelStep:
    """Stores what it is told to note, and answers everything else with what it was told."""
    words = last_user(request).partition("\n")[0]
    if words.startswith("note: ") and not results(request):
        return keeping(words.removeprefix("note: "))
    return said(f"about {words!r}")


def assert_each_continues_the_one_before(requests: Sequence[ModelRequest]) -> None:
    for before, after in itertools.pairwise(requests):
        shared = after.messages[: len(before.messages)]
        assert frozen_bytes(shared) == frozen_bytes(before.messages)
        assert frozen_bytes(after.tools) == frozen_bytes(before.tools)


async def remember_an_older_session(one: Process) -> None:
    await one.base.sessions.open(USER, "older")
    await one.turn("my boat is called Osprey", "older")
    await one.bell.settled()
    assert await one.base.channel.state(USER, "older") == (1, 1), "it is in memory before it is recalled"


async def test_three_turns_share_their_prefix_with_recall_and_memory_in_it(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, noting) as one:
        await remember_an_older_session(one)
        await one.turn("note: likes knots", "older")
        before = len(one.model.of(RunKind.TURN))
        for text in ("where is my boat Osprey", "note: the boat is blue", "and my boat now"):
            record = await one.turn(text)
            assert record.state is RunState.COMPLETED
        requests = one.model.of(RunKind.TURN)[before:]
        assert len(requests) == 4, "the second turn made a tool call"
        assert_each_continues_the_one_before(requests)
        assert "likes knots" in str(requests[0].messages[0]["content"])
        assert "the boat is blue" not in str(requests[-1].messages[0]["content"])
        for request in requests:
            assert NOTE in last_user(request)
            assert "my boat is called Osprey" in last_user(request)


async def test_what_the_model_is_told_besides_is_in_no_history_and_no_event(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, noting) as one:
        await remember_an_older_session(one)
        await one.turn("where is my boat Osprey")
        await one.bell.settled()
        [turn] = await one.history()
        assert turn["user"] == "where is my boat Osprey"
        assert NOTE in turn["opening"], "the bytes the model saw are kept"
        assert "memory-context" not in str(await one.events())
        kept = await one.base.memory.turns(USER, 10)
        assert [one["user"] for one in kept if one["session"] == SESSION] == ["where is my boat Osprey"]


async def test_another_process_goes_on_with_the_same_bytes(store_url: str, tmp_path: Path) -> None:
    model = RuledModel(noting)
    async with process(store_url, tmp_path, model) as one:
        await remember_an_older_session(one)
        await one.turn("where is my boat Osprey")
        await one.turn("note: the boat is blue")
    async with process(store_url, tmp_path / "elsewhere", model) as two:
        await two.turn("and my boat now")
    requests = [request for request in model.of(RunKind.TURN) if "Osprey" in str(request.messages[1]["content"])][1:]
    assert len(requests) == 4
    assert_each_continues_the_one_before(requests)


async def test_a_turn_that_another_process_finishes_keeps_its_bytes(store_url: str, tmp_path: Path) -> None:
    """The first process stops while the model is at work on the answer after a memory write."""
    hang = asyncio.Event()

    async def stuck() -> ModelStep:
        await asyncio.Event().wait()
        raise AssertionError

    def rule(request: ModelRequest) -> ModelStep | Awaitable[ModelStep]:
        if not results(request):
            return keeping("the boat is blue")
        if hang.is_set():
            return said("noted")
        hang.set()
        return stuck()

    model = RuledModel(rule)
    async with process(store_url, tmp_path, model, **QUICK) as one:
        run = await one.say("remember the boat")
        await eventually(hang.is_set)
        await one.base.memory.write(
            USER, "user", await one.base.memory.document(USER, "user"), ("changed meanwhile",)
        )  # by another session
        await one.base.users.change(USER, zone="Asia/Kathmandu")
    async with process(store_url, tmp_path / "elsewhere", model, **QUICK) as two:
        record = await two.ended(run)
        assert (record.state, record.result["text"]) == (RunState.COMPLETED, "noted")
        kinds = [kind for kind, _ in await two.events()]
        assert kinds.count(EventType.STEP_RESTARTED) == 1
        assert kinds.count(EventType.TURN_ENDED) == 1
    first, cut_off, again = model.of(RunKind.TURN)
    assert frozen_bytes(again.messages) == frozen_bytes(cut_off.messages)
    assert frozen_bytes(again.messages[:2]) == frozen_bytes(first.messages)


async def test_a_session_keeps_the_memory_it_began_with_and_a_new_one_sees_the_new(
    store_url: str, tmp_path: Path
) -> None:
    async with process(store_url, tmp_path, noting) as one:
        await one.turn("note: likes knots")
        await one.turn("hello")
        await one.base.sessions.open(USER, "s2")
        await one.turn("hello", "s2")
        systems = [str(request.messages[0]["content"]) for request in one.model.of(RunKind.TURN)]
        assert ["likes knots" in system for system in systems] == [False, False, False, True]
        assert len(set(systems[:3])) == 1


async def test_the_date_is_in_the_users_zone_in_the_models_copy_only(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, noting) as one:
        await one.base.users.change(USER, zone="Asia/Kathmandu")
        await one.turn("hello")
        [request] = one.model.of(RunKind.TURN)
        assert last_user(request).startswith("hello\n\n[")
        assert last_user(request).endswith("in Asia/Kathmandu]")
        assert "Kathmandu" not in str(request.messages[0]["content"])


async def test_the_users_own_model_overrides_the_configured_one(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, noting) as one:
        await one.base.users.add("bob")
        await one.base.sessions.open("bob", "b1")
        await one.on("HSET", "user", "model", "smart")
        await one.turn("hello")
        message = (await one.base.sessions.post("bob", "b1", "hello")).message
        await one.ended(message, "bob")
        assert [request.model for request in one.model.of(RunKind.TURN)] == ["smart", "default"]


async def test_over_real_http_the_override_reaches_the_named_endpoint_or_the_turn_says_why_not(
    store_url: str, tmp_path: Path
) -> None:
    async with ModelServer(lambda _: Reply(text="plain")) as plain, ModelServer(lambda _: Reply(text="smart")) as smart:
        models = {
            "default": {"base_url": plain.base_url, "model": "plain-1"},
            "smart": {"base_url": smart.base_url, "model": "smart-1"},
        }
        bell = LocalBell(keeps=("review",))
        worker = open_worker(settings_for(store_url, tmp_path, models=models), parts=Parts(bell=bell))
        bell.serve(worker)
        await worker.start()
        one = Process(worker, bell, RuledModel(noting))
        await one.base.users.add(USER)
        await one.base.sessions.open(USER, SESSION)
        answers = []
        for model in ("", "smart", "nowhere"):
            await one.base.store.read(("HSET", user_key(USER), "model", model))
            answers.append(await one.turn("hello"))
        await bell.settled()
        await worker.aclose()
    assert [record.state for record in answers] == [RunState.COMPLETED, RunState.COMPLETED, RunState.FAILED]
    assert [record.result["text"] for record in answers] == ["plain", "smart", ""]
    assert "nowhere" in answers[2].result["error"]
    assert "smart" in answers[2].result["error"], "it names what is configured"
    assert [call.model for call in smart.calls] == ["smart-1"]


async def test_a_failed_turn_is_told_to_the_next_one_and_does_not_close_the_session(
    store_url: str, tmp_path: Path
) -> None:
    def rule(request: ModelRequest) -> ModelStep | Exception:
        return ModelRefused("key refused") if "fail" in last_user(request) else said("fine")

    async with process(store_url, tmp_path, rule) as one:
        failed = await one.turn("please fail")
        assert (failed.state, failed.result["text"]) == (RunState.FAILED, "")
        assert "key refused" in failed.result["error"]
        assert (await one.turn("and now")).state is RunState.COMPLETED
        request = one.model.of(RunKind.TURN)[-1]
        assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "user"]
        assert "not completed: failed" in str(request.messages[2]["content"])
