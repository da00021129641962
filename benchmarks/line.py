"""The line against bare Celery, in one run on one store: ``python benchmarks/line.py``.

Bare Celery is a threads pool with 16 slots, no events, and a Redis result backend where a result is waited for. Ours is
as shipped (events on), with a second column without events. Every number is printed with its conditions; the goals are
those of docs/guarantees.md.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import redis
from _fleet import Workers, quantile
from bare import bare_app
from celery import chord

from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.contracts.runs import NewRun, Outcome
from hermes_tasks.contracts.steps import ModelStep, StartedStep, ToolCall
from hermes_tasks.deploy import launcher
from hermes_tasks.settings import load
from hermes_tasks.store.address import store_url
from hermes_tasks.store.channel import BUILTIN, NewEntry
from hermes_tasks.store.journal import Guard
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.wiring.base import Base, make_base, policies, store_config
from hermes_tasks.wiring.start import SWITCH_S

SESSIONS, TURNS, USERS = 50, 20, 10
REPEATS = 5
MEMORY_SLOTS = str(launcher("memory").slots)  # as shipped
NO_EVENTS = {"HERMES_TASKS_WORKERS__MEMORY__EVENTS": "false", "HERMES_TASKS_WORKERS__DELEGATION__EVENTS": "false"}


class Bench:
    """One store, the bare app and our records, and what was measured."""

    def __init__(self, server: EmbeddedServer, root: Path) -> None:
        self.server, self.log = server, root / "workers.log"
        self.log.touch()
        self.backend = server.paths.url(1)
        self.app = bare_app(server.broker_url, self.backend)
        self.plain = redis.Redis.from_url(self.backend)

    def workers(self) -> Workers:
        return Workers(self.server, self.log)

    async def ours(self, work: Callable[[Base], Awaitable[list[float]]]) -> list[float]:
        with self.workers() as probe:
            settings = load(environ=probe.environment)
        renewer = Renewer(store_url(settings), store_config(settings))
        base = make_base(settings, renewer=renewer)
        renewer.start()
        try:
            return await work(base)
        finally:
            await base.aclose()


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


# -- three children → join ---------------------------------------------------------------------------------------------


def bare_chords(bench: Bench) -> list[float]:
    noop, join = bench.app.tasks["noop"], bench.app.tasks["join"]
    times = []
    for _ in range(100):
        began = time.perf_counter()
        chord([noop.s(), noop.s(), noop.s()])(join.s()).get(timeout=10, interval=0.001)
        times.append(time.perf_counter() - began)
    return times


async def our_joins(base: Base) -> list[float]:
    child = policies(base.settings)["child"]
    times = []
    for _ in range(100):
        session = await base.sessions.open("u0")
        posted = await base.sessions.post("u0", session, "delegate", local=True)
        journal = await base.runs.claim("u0", posted.begun)
        assert journal is not None
        await journal.append(ModelStep(calls=(ToolCall(id="c", name="delegate_task", arguments="{}"),)))
        batch = new_id()
        children = [
            NewRun(
                id=f"{batch}.{index}", kind="child", user="u0", session=session, parent=posted.begun, batch=batch,
                index=index, depth=1, spec={"goal": "answer"}, policy=child,
            )
            for index in range(3)
        ]  # fmt: skip
        guard = Guard("u0", posted.begun, journal.attempt, journal.lease.holder, 1)
        began = time.perf_counter()
        await base.runs.create_batch(guard, StartedStep(calls=(0,), batch=batch), batch, 0, children)
        await joined(base, session)
        times.append(time.perf_counter() - began)
        await base.runs.cancel("u0", posted.begun)
    return times


async def joined(base: Base, session: str) -> None:
    """Wait for the event that tells a client of the join."""
    stream, last = user_key("u0", f"ev:{session}"), "0-0"
    while True:
        for _, events in await base.store.redis.xread({stream: last}, block=5000) or []:
            if any(fields["type"] == "batch.joined" for _, fields in events):
                return
            last = events[-1][0]


# -- the table ---------------------------------------------------------------------------------------------------------


def rate_row(name: str, bare: list[float], ours: list[float], quiet: list[float], goal: str) -> None:
    base = statistics.median(bare)
    print(
        f"{name:<44} {base:>9.0f}/s {statistics.median(ours):>9.0f}/s {statistics.median(ours) / base:>6.2f} x "
        f"{statistics.median(quiet) / base:>6.2f} x   {goal}"
    )


def time_row(name: str, bare: list[float], ours: list[float], quiet: list[float], share: float, goal: str) -> None:
    base = quantile(bare, share)
    found = quantile(ours, share)
    print(
        f"{name:<44} {base * 1000:>8.2f} ms {found * 1000:>8.2f} ms {found / base:>6.2f} x "
        f"{quantile(quiet, share) / base:>6.2f} x   {goal}"
    )


def measure(
    bench: Bench, role: str, slots: int, body_ms: float, work: Callable[[Base], Awaitable[list[float]]]
) -> list[list[float]]:
    """The same work with events on and off."""
    found = []
    for extra in ({}, NO_EVENTS):
        with bench.workers() as workers:
            workers.start("ours.py", role, str(slots), str(body_ms), extra=extra)
            found.append(asyncio.run(bench.ours(work)))
    return found


def bare(bench: Bench, work: Callable[[Bench], list[float]]) -> list[float]:
    with bench.workers() as workers:
        workers.start("bare.py", bench.server.broker_url, bench.backend)
        return work(bench)


async def add_users(base: Base) -> list[float]:
    for user in range(USERS):
        await base.users.add(f"u{user}")
    return []


def main() -> None:
    sys.setswitchinterval(SWITCH_S)  # as the front does
    cores, python = os.cpu_count(), platform.python_version()
    print(f"{platform.machine()}, {cores} cores, Python {python}, one embedded store, AOF everysec")
    print(f"{'':<44} {'bare':>11} {'ours':>11} {'ratio':>8} {'no events':>8}   goal")
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
        chords = bare(bench, bare_chords)
        joins = measure(bench, "delegation", launcher("delegation").slots, 0, our_joins)
        time_row("3 children -> join, instant model, p50", chords, *joins, 0.5, "<= 1.0 x a chord of three no-ops")
    print("0 inversions, 0 lost, 0 doubled in every ordered run (checked after each burst)")


if __name__ == "__main__":
    main()
