"""Reviews: after every committed turn, once, over the whole turn; seen by nobody, with power over memory only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import ContextTooLong, ModelRefused, RateLimited
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.runs import NewRun, RunRecord
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import policies
from tests.integration.composed import (
    SESSION,
    USER,
    Process,
    Rule,
    RuledModel,
    frozen_bytes,
    kind_of,
    last_user,
    process,
    results,
    tools,
)

pytestmark = pytest.mark.anyio

LIKES_TEA = called(("memory", {"target": "user", "action": "add", "content": "likes tea"}))


def saving(request: ModelRequest) -> ModelStep:
    """A review that stores one thing."""
    return said("saved") if results(request) else LIKES_TEA


def reviewed(rule: Rule, turns: Rule = lambda _: said("hello")) -> RuledModel:
    return RuledModel(turns, reviews=rule)


async def reviews(one: Process) -> list[RunRecord]:
    await one.bell.settled()
    return await one.of_kind(RunKind.REVIEW)


async def test_a_review_follows_each_committed_turn_and_later_ones_are_put_together(
    store_url: str, tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    async def slow(request: ModelRequest) -> ModelStep:
        await go_on.wait()
        return said("nothing to save")

    async with process(store_url, tmp_path, reviewed(slow)) as one:
        for number in range(4):
            await one.turn(f"message {number}")
        assert [(await one.base.runs.get(USER, "review.s1.1")).state] == [RunState.RUNNING]
        go_on.set()
        assert [record.id for record in await reviews(one)] == ["review.s1.1", "review.s1.4"]
        requests = one.model.of(RunKind.REVIEW)
        asked = [sum(message["role"] == "user" for message in request.messages) for request in requests]
        assert asked == [2, 5], "one turn and the instruction; four turns and the instruction"


async def test_a_review_sees_the_whole_turn_and_starts_when_it_is_stored(store_url: str, tmp_path: Path) -> None:
    second_part = asyncio.Event()

    async def two_parts(request: ModelRequest) -> ModelStep:
        if not results(request):
            return called(("memory", {"target": "memory", "action": "add", "content": "x"}), text="first part")
        await second_part.wait()
        return said("second part")

    async with process(store_url, tmp_path, reviewed(saving, two_parts)) as one:
        run = await one.say("tell me")
        await eventually(lambda: len(one.model.of(RunKind.TURN)) == 2)
        assert await one.of_kind(RunKind.REVIEW) == []
        second_part.set()
        await one.ended(run)
        await reviews(one)
        first = one.model.of(RunKind.REVIEW)[0]
        assert [message["role"] for message in first.messages] == [
            "system", "user", "assistant", "tool", "assistant", "user"
        ]  # fmt: skip
        texts = [str(message.get("content")) for message in first.messages]
        assert (texts[2], texts[4]) == ("first part", "second part")
        last_of_turn = one.model.of(RunKind.TURN)[-1]
        assert frozen_bytes(first.messages[:4]) == frozen_bytes(last_of_turn.messages), "a provider's cache still fits"
        assert tools(first) == {"memory"}


async def test_what_a_review_stores_is_seen_by_the_next_session_and_by_nothing_else(
    store_url: str, tmp_path: Path
) -> None:
    async with process(store_url, tmp_path, reviewed(saving)) as one:
        await one.turn("I do like tea")
        assert [record.state for record in await reviews(one)] == [RunState.COMPLETED]
        history, events = await one.history(), await one.events()
        assert (await one.base.memory.document(USER, Document.USER)).entries == ("likes tea",)
        await one.turn("and now")
        second = one.model.of(RunKind.TURN)[1]
        assert "likes tea" not in str(second.messages)
        assert "Review the conversation" not in str(second.messages)
        assert [turn["user"] for turn in history] == ["I do like tea"]
        assert "review" not in str(history).lower()
        assert "review" not in str(events).lower()
        await one.base.sessions.open(USER, "s2")
        await one.turn("hello", "s2")
        assert "likes tea" in str(one.model.of(RunKind.TURN)[2].messages[0]["content"])
        assert await one.base.channel.state(USER, SESSION) == (2, 2), "only turns are in the channel"


@pytest.mark.parametrize("how", ["failed", "cancelled", "empty"])
async def test_a_turn_without_an_answer_is_not_reviewed(store_url: str, tmp_path: Path, how: str) -> None:
    at_work = asyncio.Event()

    def rule(request: ModelRequest) -> ModelStep | Exception | Awaitable[ModelStep]:
        if how == "failed":
            return ModelRefused("no")
        if how == "empty":
            return said("")
        at_work.set()
        return never()

    async def never() -> ModelStep:
        await asyncio.Event().wait()
        raise AssertionError

    async with process(store_url, tmp_path, reviewed(saving, rule)) as one:
        run = await one.say("hello")
        if how == "cancelled":
            await eventually(at_work.is_set)
            await one.base.runs.cancel(USER, run)
        assert (await one.ended(run)).state in (RunState.FAILED, RunState.CANCELLED)
        assert await one.on("HGETALL", "owed") == {}
        assert await one.of_kind(RunKind.REVIEW) == []


async def test_children_jobs_and_reviews_are_not_reviewed(store_url: str, tmp_path: Path) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.TURN and "delegate" in last_user(request) and not results(request):
            return called(("delegate_task", {"tasks": [{"goal": "one"}, {"goal": "two"}]}))
        return said("done")

    async with process(store_url, tmp_path, reviewed(saving, rule)) as one:
        job = new_id()
        spec = {"job": "j1", "name": "digest", "prompt": "what is new", "slot": 1}
        policy = policies(one.base.settings)["cron"]
        await one.base.runs.create(NewRun(id=job, kind=RunKind.CRON, user=USER, spec=spec, policy=policy))
        await one.ended(job)
        assert await reviews(one) == []
        await one.turn("delegate")
        assert [record.id for record in await reviews(one)] == ["review.s1.1"]
        assert len(await one.of_kind(RunKind.CHILD)) == 2
        stored = (await one.base.memory.document(USER, Document.USER)).entries
        assert stored == ("likes tea",)
        kept = await one.base.memory.turns(USER, 10)
        assert [turn["user"] for turn in kept] == ["delegate"], "nothing of the job is stored as the user's words"


async def test_a_reviewer_that_insists_on_other_tools_gets_none_and_ends(store_url: str, tmp_path: Path) -> None:
    def insisting(request: ModelRequest) -> ModelStep:
        wants = ("terminal", {"command": f"touch {tmp_path}/made"}), ("delegate_task", {"goal": "more"})
        return called(*wants) if request.tools else said("I could not")

    async with process(store_url, tmp_path, reviewed(insisting)) as one:
        await one.turn("hello")
        [record] = await reviews(one)
        assert (record.state, record.exit_reason) == (RunState.FAILED, ExitReason.REPEATED_FAILURE)
        assert len(one.model.of(RunKind.REVIEW)) <= one.base.settings.policies.review.iterations == 16
        for text in results(one.model.of(RunKind.REVIEW)[-1]):
            assert "is not available to this run" in text
        assert await one.of_kind(RunKind.CHILD) == []
        assert not (tmp_path / "made").exists()
        await one.turn("next")
        assert "terminal" not in str(one.model.of(RunKind.TURN)[-1].messages[1:])


async def test_a_reviewer_that_asks_for_something_new_each_time_ends_with_its_iterations(
    store_url: str, tmp_path: Path
) -> None:
    def wandering(request: ModelRequest) -> ModelStep:
        return called(("terminal", {"command": f"echo {len(request.messages)}"}))

    async with process(store_url, tmp_path, reviewed(wandering)) as one:
        await one.turn("hello")
        [record] = await reviews(one)
        assert (record.state, record.exit_reason) == (RunState.FAILED, ExitReason.MAX_ITERATIONS)
        assert len(one.model.of(RunKind.REVIEW)) == 16


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("slow down", retry_after=timedelta(hours=1)),
        ContextTooLong("too long"),
        ModelRefused("key refused"),
    ],
)
async def test_a_failing_review_keeps_its_write_says_why_and_leaves_the_turn_alone(
    store_url: str, tmp_path: Path, error: Exception
) -> None:
    first = iter([LIKES_TEA])
    url = "http://127.0.0.1:9/v1"
    # A refusal pauses a model for all: reviews have one of their own.
    named = {"default": {"base_url": url, "model": "m"}, "small": {"base_url": url, "model": "s"}}
    models = {**named, "use": {"review": "small"}}
    async with process(store_url, tmp_path, reviewed(lambda _: next(first, error)), models=models) as one:
        turn = await one.turn("hello")
        assert (turn.state, turn.result) == (RunState.COMPLETED, {"text": "hello"})
        [record] = await reviews(one)
        assert (record.state, record.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
        assert str(error) in record.result["error"] or "asks to wait" in record.result["error"]
        assert "likes tea" in record.result["text"], "the record shows the write it did make"
        assert (await one.base.memory.document(USER, Document.USER)).entries == ("likes tea",)
        assert [data["state"] for kind, data in await one.events() if kind == "turn.ended"] == ["completed"]
        assert (await one.turn("next")).state is RunState.COMPLETED
        assert len(await reviews(one)) == 2, "the next turn is reviewed again"
