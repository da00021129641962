"""The line against bare Celery, in one run on one store: ``python benchmarks/line.py``.

Bare Celery is a threads pool with 16 slots, no events, and a Redis result backend where a result is waited for. Ours is
as shipped (events on), with a second column without events. Every number is printed with its conditions; the goals are
those of docs/guarantees.md.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from _bench import NO_EVENTS, USERS, Bench, add_users, bare, conditions, measure, rate_row, time_row

from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.deploy import launcher
from hermes_tasks.store.channel import BUILTIN, NewEntry
from hermes_tasks.store.keys import user_key
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.wiring.base import Base
from hermes_tasks.wiring.start import SWITCH_S

SESSIONS, TURNS = 50, 20
REPEATS = 5
MEMORY_SLOTS = str(launcher("memory").slots)  # as shipped


# -- ordered writes ----------------------------------------------------------------------------------------------------


def bare_writes(bench: Bench, body_ms: float) -> list[float]:
    """Tasks per second, unordered, from the first publish to the last effect."""
    total, rates = SESSIONS * TURNS, []
    for _ in range(REPEATS):
        bench.plain.delete("bare:done")
        began = time.perf_counter()
        with bench.app.producer_pool.acquire() as producer:
            for _turn in range(TURNS):
                for _session in range(SESSIONS):
                    bench.app.send_task("body", args=(body_ms, total), queue="bare", producer=producer)
        if bench.plain.blpop(["bare:done"], timeout=120) is None:
            raise SystemExit("bare Celery did not finish")
        rates.append(total / (time.perf_counter() - began))
    return rates


async def our_writes(base: Base, hand_over: Callable[[Base, str, str], Awaitable[None]]) -> list[float]:
    """Entries per second, ordered, from the first append to the last effect; order and once-ness are checked."""
    rates = []
    for user in range(USERS):
        await base.users.add(f"u{user}")
    for _ in range(REPEATS):
        tag = new_id()
        names = [(f"u{number % USERS}", f"{tag}.{number}") for number in range(SESSIONS)]
        for user, session in names:
            await base.sessions.open(user, session)
        began = time.perf_counter()
        await asyncio.gather(*(hand_over(base, user, session) for user, session in names))
        while not await landed(base, names):  # noqa: ASYNC110 - from outside
            await asyncio.sleep(0.005)
        rates.append(SESSIONS * TURNS / (time.perf_counter() - began))
        await check_order(base, names)
    return rates


async def burst(base: Base, user: str, session: str) -> None:
    """A producer hands over a session's 20 turns at once, as the channel allows and a task queue does not."""
    turns = [
        NewEntry(EntryKind.TURN, {"user": f"question {n}", "assistant": f"answer {n}"}, n, f"{session}.{n}")
        for n in range(1, TURNS + 1)
    ]
    await base.channel.append_all(user, session, turns)


async def singly(base: Base, user: str, session: str) -> None:
    """The same turns in one call each."""
    for n in range(1, TURNS + 1):
        data = {"user": f"question {n}", "assistant": f"answer {n}"}
        await base.channel.append(user, session, EntryKind.TURN, data, turn=n, turn_id=f"{session}.{n}")


async def landed(base: Base, names: list[tuple[str, str]]) -> bool:
    """One look at all cursors: many looks would take the core that the worker needs."""
    applied = await base.store.read(*(("HGET", user_key(user, f"cur:{name}|{BUILTIN}"), "pos") for user, name in names))
    return all(int(position or 0) == TURNS for position in applied)


async def check_order(base: Base, names: list[tuple[str, str]]) -> None:
    found: dict[str, list[int]] = {session: [] for _, session in names}
    for user in {user for user, _ in names}:
        for document in await base.memory.turns(user, 100_000):
            if document["session"] in found:
                found[document["session"]].append(document["turn"])
    wrong = [session for session, turns in found.items() if turns != list(range(1, TURNS + 1))]
    if wrong:
        raise SystemExit(f"order or once-ness broken in {wrong}")


# -- append → effect, idle ---------------------------------------------------------------------------------------------


def bare_round_trips(bench: Bench) -> list[float]:
    times = []
    for _ in range(200):
        began = time.perf_counter()
        bench.app.send_task("noop", queue="bare").get(timeout=10)
        times.append(time.perf_counter() - began)
    return times


async def our_effects(base: Base) -> list[float]:
    times = []
    user, session = "u0", await base.sessions.open("u0")
    for turn in range(1, 201):
        began = time.perf_counter()
        await base.channel.append(
            user, session, EntryKind.TURN, {"user": "q", "assistant": "a"}, turn=turn, turn_id=str(turn)
        )
        while (await base.channel.state(user, session))[1] < turn:  # noqa: ASYNC110 - from outside
            await asyncio.sleep(0.0005)  # a busier look would take the core that the worker needs
        times.append(time.perf_counter() - began)
    return times


# -- turn commit -------------------------------------------------------------------------------------------------------


def bare_publishes(bench: Bench) -> list[float]:
    times = []
    for _ in range(300):
        began = time.perf_counter()
        bench.app.send_task("noop", queue="nobody", ignore_result=True)
        times.append(time.perf_counter() - began)
    bench.plain.delete("nobody")
    return times


async def our_commits(base: Base) -> list[float]:
    times = []
    session = await base.sessions.open("u0")
    for _ in range(200):
        posted = await base.sessions.post("u0", session, "a question", local=True)
        journal = await base.runs.claim("u0", posted.begun)
        assert journal is not None
        await journal.append(ModelStep(text="an answer of the usual length, " * 10))
        began = time.perf_counter()
        await journal.finish(Outcome(state=RunState.COMPLETED, exit_reason=ExitReason.COMPLETED, text="an answer"))
        times.append(time.perf_counter() - began)
    return times


def main() -> None:
    sys.setswitchinterval(SWITCH_S)  # as the front does
    conditions()
    with tempfile.TemporaryDirectory() as root, EmbeddedServer(Path(root) / "home") as server:
        bench = Bench(server, Path(root))
        for body_ms in (0.5, 5.0):
            unordered = bare(bench, lambda bench, body_ms=body_ms: bare_writes(bench, body_ms))
            server.flush()
            for how, hand_over in (("20 turns a call", burst), ("a turn a call", singly)):
                ours = []
                for extra in ({}, NO_EVENTS):
                    with bench.workers() as workers:
                        workers.start("ours.py", "memory", MEMORY_SLOTS, str(body_ms), extra=extra)
                        ours.append(asyncio.run(bench.ours(partial(our_writes, hand_over=hand_over))))
                    server.flush()
                rate_row(f"ordered writes, body {body_ms} ms, {how}", unordered, *ours, ">= 5 x, 0 inversions")
        asyncio.run(bench.ours(add_users))
        trips = bare(bench, bare_round_trips)
        effects = measure(bench, "memory", int(MEMORY_SLOTS), 0, our_effects)
        time_row("append -> effect, idle, p50", trips, *effects, 0.5, "<= 0.9 x")
        time_row("append -> effect, idle, p95", trips, *effects, 0.95, "<= 1.2 x")
        publishes = bare_publishes(bench)
        commits = [asyncio.run(bench.ours(our_commits))] * 2
        time_row("turn commit (front), p50", publishes, *commits, 0.5, "<= 2 x one apply_async")
    print("0 inversions, 0 lost, 0 doubled in every ordered run (checked after each burst)")


if __name__ == "__main__":
    main()
