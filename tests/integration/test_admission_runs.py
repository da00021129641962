"""Whole runs at a provider with limits: two worker processes, several users, one model that counts its callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.clock import day_in
from hermes_tasks.contracts.errors import RateLimited
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState, WaitReason
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.runs import NewRun, RunRecord
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.store import hints
from hermes_tasks.store.keys import shard_key, user_key
from hermes_tasks.testing.model import said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import policies
from tests.integration.composed import USER, Process, Rule, RuledModel, goal_of, kind_of, process

pytestmark = pytest.mark.anyio

USERS = ("ann", "bob", "cat", "dan")


def provider(**limits: int) -> dict[str, Any]:
    return {"default": {"base_url": "http://127.0.0.1:9/v1", "model": "m", **limits}}


@asynccontextmanager
async def fleet(
    url: str, home: Path, rule: Rule, users: Sequence[str] = USERS, **settings: Any
) -> AsyncIterator[list[Process]]:
    """Two worker processes that ask one model."""
    model = RuledModel(rule)
    async with process(url, home, model, **settings) as one, process(url, home, model, **settings) as two:
        known = {user.id for user in await one.base.users.all()}
        for user in users:
            if user not in known:
                await one.base.users.add(user)
                await one.base.sessions.open(user, "s1")
        yield [one, two]


async def start(one: Process, user: str, count: int, name: str = "job", kind: RunKind = RunKind.CHILD) -> list[str]:
    """That many runs of a user, without a turn around them."""
    policy = policies(one.base.settings)[str(kind)]
    runs = [f"{name}-{user}-{number}" for number in range(count)]
    for run in runs:
        assert await one.base.runs.create(NewRun(id=run, kind=kind, user=user, spec={"goal": run}, policy=policy))
    return runs


async def all_of(one: Process, user: str, runs: Sequence[str]) -> list[RunRecord]:
    return [await one.base.runs.get(user, run) for run in runs]


async def waiting(one: Process, user: str, runs: Sequence[str], why: WaitReason) -> int:
    records = await all_of(one, user, runs)
    return len([record for record in records if record.state is RunState.WAITING and record.why == why])


def no_slot_is_held(processes: Sequence[Process], besides: int = 0) -> bool:
    return sum(len(one.worker.agents.runner.running) for one in processes if one.worker.agents) <= besides


async def test_no_more_calls_at_once_than_the_provider_allows_and_users_take_turns(
    store_url: str, tmp_path: Path
) -> None:
    asked: list[str] = []
    all_wait = asyncio.Event()

    async def busy(request: ModelRequest) -> ModelStep:
        asked.append(goal_of(request).split("-")[1])
        await all_wait.wait()
        await asyncio.sleep(0.03)  # the time a provider takes
        return said("done")

    async with fleet(store_url, tmp_path, busy, models=provider(max_concurrent=4)) as processes:
        one, two = processes
        runs = {user: await start(processes[n % 2], user, 12) for n, user in enumerate(USERS)}
        every = [(user, run) for user, names in runs.items() for run in names]

        async def in_line() -> bool:
            return sum([await waiting(one, user, names, WaitReason.PERMIT) for user, names in runs.items()]) == 45

        await eventually(in_line, 30)
        all_wait.set()
        for user, run in every:
            record = await two.ended(run, user, 60)
            assert (record.state, record.failures) == (RunState.COMPLETED, 0)
        assert one.model.peak == 3, "of four, one is for turns"
        assert len(asked) == 48, "nobody is asked for twice"
        first = asked[:3]
        for served in range(8, 36):
            counts = [asked[3:served].count(user) for user in USERS]
            assert max(counts) - min(counts) <= 2, (first, asked[3:served])


async def test_a_turn_starts_at_once_while_thirty_children_of_another_user_wait(store_url: str, tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            await let_go.wait()
        return said("here I am")

    async with fleet(store_url, tmp_path, rule, models=provider(max_concurrent=4)) as processes:
        one, two = processes
        runs = await start(one, "ann", 30)
        await eventually(lambda: at_least(27, waiting(two, "ann", runs, WaitReason.PERMIT)), 20)
        assert no_slot_is_held(processes, besides=3)
        began = time.monotonic()
        message = (await two.base.sessions.post("bob", "s1", "are you there?")).message
        record = await two.ended(message, "bob")
        assert record.result["text"] == "here I am"
        assert time.monotonic() - began < 3
        assert await waiting(two, "ann", runs, WaitReason.PERMIT) == 27, "and nobody was pushed aside for it"
        let_go.set()
        for run in runs:
            assert (await one.ended(run, "ann", 60)).state is RunState.COMPLETED


async def test_a_storm_of_refusals_is_waited_out_without_slots_and_everything_completes(
    store_url: str, tmp_path: Path
) -> None:
    open_at = 0.0
    refused: list[float] = []
    answered: list[float] = []

    def rule(request: ModelRequest) -> ModelStep | Exception:
        nonlocal open_at
        now = time.monotonic()
        open_at = open_at or now + 4
        if now < open_at:
            refused.append(now)
            return RateLimited("slow down", retry_after=timedelta(seconds=open_at - now))
        answered.append(now)
        return said("done")

    async with fleet(store_url, tmp_path, rule, models=provider()) as processes:
        one, two = processes
        [first] = await start(one, "ann", 1, "first")
        await one.reached(first, RunState.WAITING, "ann")
        await eventually(lambda: time.monotonic() > refused[0] + 1.5)  # by now the other process has looked, too
        runs = {user: await start(processes[n % 2], user, 10) for n, user in enumerate(USERS)}
        for user, names in runs.items():
            await eventually(lambda u=user, n=names: at_least(10, waiting(two, u, n, WaitReason.RATE)), 20)
        assert len(refused) == 1, "whoever came after the first refusal did not ask"
        assert no_slot_is_held(processes)
        for user, names in runs.items():
            for run in names:
                record = await one.ended(run, user, 60)
                assert (record.state, record.failures, record.takeovers) == (RunState.COMPLETED, 0, 0)
        assert (await one.ended(first, "ann")).state is RunState.COMPLETED
        assert len(refused) == 1
        assert len(answered) == 41
        assert answered[5] - answered[0] > 1, "they do not all come back at once"


async def test_runs_that_are_refused_together_ask_no_more_until_it_is_over(store_url: str, tmp_path: Path) -> None:
    """All are inside their call when the storm begins; none of them asks a second time before its end."""
    gathered = asyncio.Event()
    inside, refused = 0, 0
    open_at = 0.0

    async def rule(request: ModelRequest) -> ModelStep | Exception:
        nonlocal inside, refused, open_at
        inside += 1
        if inside == 32:
            open_at = time.monotonic() + 3
            gathered.set()
        await gathered.wait()
        if time.monotonic() < open_at:
            refused += 1
            return RateLimited("slow down", retry_after=timedelta(seconds=open_at - time.monotonic()))
        return said("done")

    windows = {"child": 32, "children_per_parent": 32}
    async with fleet(store_url, tmp_path, rule, models=provider(), windows=windows) as processes:
        runs = {user: await start(processes[n % 2], user, 8) for n, user in enumerate(USERS)}
        await asyncio.wait_for(gathered.wait(), 20)
        await eventually(lambda: no_slot_is_held(processes), 20)
        assert refused == 32
        for user, names in runs.items():
            for run in names:
                assert (await processes[0].ended(run, user, 60)).state is RunState.COMPLETED
        assert refused == 32


async def test_our_own_rate_is_kept_without_slots(store_url: str, tmp_path: Path) -> None:
    async with fleet(store_url, tmp_path, lambda _: said("done"), models=provider(requests_per_minute=6)) as processes:
        one, two = processes
        runs = await start(one, "ann", 5) + await start(two, "ann", 5, "more")

        async def settled() -> bool:
            records = await all_of(one, "ann", runs)
            done = [record for record in records if record.state is RunState.COMPLETED]
            return len(done) == 6 and await waiting(one, "ann", runs, WaitReason.RATE) == 4

        await eventually(settled, 20)
        assert no_slot_is_held(processes)
        assert len(one.model.requests) == 6


async def test_watchers_of_a_turn_are_told_to_drop_what_a_refused_call_said(store_url: str, tmp_path: Path) -> None:
    asked = 0

    class Breaks(RuledModel):
        async def ask(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
            nonlocal asked
            asked += 1
            if asked == 1:
                await on_text("Half a sentence")
                await eventually(shown)
                raise RateLimited("broke off", retry_after=timedelta(seconds=1))
            return said("whole")

    async with process(store_url, tmp_path, Breaks(lambda _: said("")), models=provider()) as one:

        async def shown() -> bool:
            return any(kind == EventType.TEXT for kind, _ in await one.events())

        record = await one.turn("hello")
        assert record.result["text"] == "whole"
        kinds = [kind for kind, _ in await one.events()]
        assert kinds[1:3] == [EventType.TEXT, EventType.STEP_RESTARTED]
        assert kinds[-1] == EventType.TURN_ENDED


# -- the tokens of a day ---------------------------------------------------------------------------------------------


async def test_over_the_day_a_turn_says_so_and_other_runs_are_held_until_the_users_midnight(
    store_url: str, tmp_path: Path
) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        return said("done", tokens=(49_000, 500))

    budget, west, east = {"daily_tokens": 50_000}, "Pacific/Niue", "Pacific/Kiritimati"  # their days always differ
    async with fleet(store_url, tmp_path, rule, ("bob",), models=provider(), budget=budget) as [one, _]:
        await one.base.users.change(USER, zone=west)
        assert (await one.turn("first")).state is RunState.COMPLETED
        [held] = await start(one, USER, 1)
        record = await one.reached(held, RunState.WAITING)
        assert record.why == WaitReason.BUDGET
        assert _tomorrow_of(record) > day_in(west, one.base.clock.now())
        began = time.monotonic()
        turn = await one.turn("second")
        assert time.monotonic() - began < 3
        assert (turn.state, turn.exit_reason) == (RunState.FAILED, ExitReason.TOKEN_BUDGET)
        told = f"49,500 of 50,000; there are new ones at 00:00 on {_tomorrow_of(record)} ({west})"
        assert told in turn.result["text"]
        assert await one.base.runs.steps(USER, turn.id) == [], "nothing was asked"
        bob = (await one.base.sessions.post("bob", "s1", "hello")).message
        assert (await one.ended(bob, "bob")).state is RunState.COMPLETED, "it is each user's own"
        # Midnight: the timer of the pause ends, and the user's calendar shows another day.
        await one.base.users.change(USER, zone=east)
        await time_comes(one, held)
        assert (await one.ended(held)).state is RunState.COMPLETED
        assert (await one.base.runs.get(USER, held)).usage.input_tokens == 49_000


def _tomorrow_of(record: RunRecord) -> str:
    """The day that it waits for."""
    return record.detail.partition("T")[0]


async def time_comes(one: Process, run: str) -> None:
    """The end of the run's pause is now."""
    now = one.base.store.now_ms()
    await one.base.store.read(
        ("HSET", user_key(USER, f"run:{run}"), "wake", now), ("ZADD", user_key(USER, "due"), now, f"run:{run}"),
        hints.put_at(shard_key(USER), USER, now),
    )  # fmt: skip


async def test_children_of_a_user_never_use_more_than_the_day_together(store_url: str, tmp_path: Path) -> None:
    """Each wants far more than the 600 it uses; what is set aside and not used is there for the next."""

    async def rule(request: ModelRequest) -> ModelStep:
        await asyncio.sleep(0.05)
        return said("done", tokens=(400, 200))

    budget = {"daily_tokens": 8_000}
    async with fleet(store_url, tmp_path, rule, models=provider(), budget=budget) as processes:
        one = processes[0]
        runs = await start(one, USER, 24)

        async def settled() -> bool:
            records = await all_of(one, USER, runs)
            done = [record for record in records if record.state is RunState.COMPLETED]
            held = [
                r
                for r in records
                if r.why == WaitReason.BUDGET and r.detail.startswith("20") and r.state is RunState.WAITING
            ]
            return len(done) + len(held) == 24 and bool(held)

        await eventually(settled, 60)
        spent = await one.on("HGETALL", f"spend:{day_in('UTC', one.base.clock.now())}")
        assert 5_000 < int(spent["tokens"]) <= 8_000
        assert not [name for name in spent if name.startswith("r:")]
        assert no_slot_is_held(processes)


def at_least(count: int, counting: Any) -> Any:
    async def enough() -> bool:
        return await counting >= count

    return enough()
