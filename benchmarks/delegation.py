"""Delegation: join latency, children in flight, fairness, takeover: ``python benchmarks/delegation.py``.

Ratios are against bare Celery in the same run on the same store (threads pool, no events, a Redis result backend where
a result is waited for); the rest is printed with its conditions. The goals are those of docs/guarantees.md.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from _bench import Bench, add_users, bare, conditions, measure, time_row
from _fleet import Workers, quantile
from celery import chord

from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.runs import NewRun, RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep, ToolCall
from hermes_tasks.demo.reply import Call, Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.deploy import launcher
from hermes_tasks.store.journal import Guard
from hermes_tasks.store.keys import user_key
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.wiring.base import Base, policies
from hermes_tasks.wiring.start import SWITCH_S

SLOTS = launcher("delegation").slots
JOINS = 100
#: Children in flight: users with six each, none of them held back by a window.
CROWD, EACH = 50, 6
MODEL_S, CALLS = 2.0, 3
LIGHT, HEAVY_RUNS, LIGHT_RUNS = 8, 1000, 10
FAIR_MODEL_S, ALONE_ROUNDS = 0.2, 3
KILLS, PER_KILL = 34, 5


# -- three children → join ---------------------------------------------------------------------------------------------


def bare_chords(bench: Bench) -> list[float]:
    """Seconds from the call of a chord of three no-ops to its result."""
    noop, join = bench.app.tasks["noop"], bench.app.tasks["join"]
    times = []
    for _ in range(JOINS):
        began = time.perf_counter()
        chord([noop.s(), noop.s(), noop.s()])(join.s()).get(timeout=10, interval=0.001)
        times.append(time.perf_counter() - began)
    return times


async def our_joins(base: Base) -> list[float]:
    """Seconds from the creation of three children to the event that tells a client of their join."""
    times = []
    for _ in range(JOINS):
        session = await base.sessions.open("u0")
        posted = await base.sessions.post("u0", session, "delegate", local=True)
        journal = await base.runs.claim("u0", posted.begun)
        assert journal is not None
        await journal.append(ModelStep(calls=(ToolCall(id="c", name="delegate_task", arguments="{}"),)))
        batch = new_id()
        children = [child(base, "u0", f"{batch}.{n}", session, posted.begun, batch, n) for n in range(3)]
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


def child(
    base: Base, user: str, run: str, session: str = "", parent: str = "", batch: str = "", index: int = 0
) -> NewRun:
    return NewRun(
        id=run, kind="child", user=user, session=session, parent=parent, batch=batch, index=index, depth=1,
        spec={"goal": "answer"}, policy=policies(base.settings)["child"],
    )  # fmt: skip


# -- many runs of many users -------------------------------------------------------------------------------------------


async def create(base: Base, user: str, count: int) -> list[str]:
    ids = [new_id() for _ in range(count)]
    for run in ids:
        await base.runs.create(child(base, user, run))
    return ids


async def ended(base: Base, runs: Sequence[tuple[str, str]], deadline_s: float = 300) -> list[RunRecord]:
    """The records of those (user, run), once all have ended.

    Raises:
        SystemExit: they did not in time, or one did not complete.
    """
    deadline, left, records = time.monotonic() + deadline_s, list(runs), []
    while left:
        if time.monotonic() > deadline:
            raise SystemExit(f"{len(left)} of {len(runs)} runs did not end")
        found = [await base.runs.get(user, run) for user, run in left]
        records += [record for record in found if record.state.terminal]
        left = [pair for pair, record in zip(left, found, strict=True) if not record.state.terminal]
        await asyncio.sleep(0.2)  # a busier look would take the core that the workers need
    wrong = {str(record.exit_reason) for record in records if str(record.state) != "completed"}
    if wrong:
        raise SystemExit(f"runs did not complete: {wrong}")
    return records


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


# -- children in flight ------------------------------------------------------------------------------------------------


def in_flight(bench: Bench) -> None:
    """One worker process as shipped, the real model client, a model server that takes two seconds a call."""
    total = CROWD * EACH

    def script(request: dict[str, Any]) -> Reply:
        answers = sum(message["role"] == "assistant" for message in request["messages"])
        if answers + 1 < CALLS:
            return Reply(calls=[Call("read_file", '{"path": "none.txt"}')], delay=MODEL_S)
        return Reply(text="done", delay=MODEL_S)

    with ModelServer.threaded(script, keep=0) as model, bench.workers() as workers:
        extra = {"HERMES_TASKS_DEMO__PORT": str(model.port), "BENCH_REAL_MODEL": "1"}
        pid = workers.start("ours.py", "delegation", str(SLOTS), "0", extra=extra)

        async def crowd(base: Base) -> list[float]:
            users = [f"c{number}" for number in range(CROWD)]
            for user in users:
                await base.users.add(user)
            warm = await create(base, users[0], EACH)
            await ended(base, [(users[0], run) for run in warm])
            before, began, cpu = rss_mib(pid), time.monotonic(), cpu_s(pid)
            pairs = [(user, run) for user in users for run in await create(base, user, EACH)]
            most, running = 0.0, 0
            states = tuple(("HGET", user_key(user, f"run:{run}"), "state") for user, run in pairs)
            while (found := await base.store.read(*states)).count("completed") < total:
                if time.monotonic() - began > 120:
                    raise SystemExit("the children did not all complete in 120 s")
                most, running = max(most, rss_mib(pid)), max(running, found.count("running"))
                await asyncio.sleep(0.2)
            records = await ended(base, pairs)
            took = (max(record.ended for record in records) - min(record.created for record in records)) / 1000
            return [took, before, most, running, cpu_s(pid) - cpu]

        took, before, most, running, cpu = asyncio.run(bench.ours(crowd))
    calls = total * CALLS
    blocked = [int(ms) for ms in re.findall(r'blocked_ms[=":\s]+(\d+)', bench.log.read_text(errors="replace"))]
    print(
        f"children in flight, one process, {CALLS} model calls of {MODEL_S:.0f} s each: {running:.0f} of {total} at "
        f"once, all done in {took:.1f} s (ideal {CALLS * MODEL_S:.0f} s; bare Celery with 16 slots "
        f"{calls / 16 * MODEL_S:.0f} s), {1000 * cpu / calls:.1f} ms of CPU a call   goal >= 300"
    )
    print(
        f"  memory {before:.0f} -> {most:.0f} MiB, {(most - before) / max(1, running):.2f} MiB a child   goal < 1; "
        f"event loop blocked over 100 ms: {len(blocked)} times, at most {max(blocked, default=0)} ms   goal 0"
    )


def cpu_s(pid: int) -> float:
    """CPU seconds the process has used, by itself."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- fairness ----------------------------------------------------------------------------------------------------------


def mean_wait_s(records: Sequence[RunRecord]) -> float:
    return statistics.mean((record.ended - record.created) / 1000 for record in records)


async def fairness(base: Base) -> list[float]:
    """(mean wait alone / mean wait in the mix) of each light user."""
    tag = new_id()
    light, heavy = [f"l{tag}{n}" for n in range(LIGHT)], f"h{tag}"
    for user in (*light, heavy):
        await base.users.add(user)
    alone: dict[str, list[float]] = {user: [] for user in light}
    for _ in range(1 + ALONE_ROUNDS):
        for user in light:
            runs = await create(base, user, LIGHT_RUNS)
            alone[user].append(mean_wait_s(await ended(base, [(user, run) for run in runs])))
    crowd = [(heavy, run) for run in await create(base, heavy, HEAVY_RUNS)]
    # All at once, over connections that are open: who comes first must not be who is treated best.
    await asyncio.gather(*(base.users.get(user) for user in (*light, heavy)))
    created = await asyncio.gather(*(create(base, user, LIGHT_RUNS) for user in light))
    pairs = dict(zip(light, created, strict=True))
    mixed = [mean_wait_s(await ended(base, [(user, run) for run in runs])) for user, runs in pairs.items()]
    await ended(base, crowd)
    # The first round only warms the workers up.
    return [statistics.median(alone[user][1:]) / both for user, both in zip(light, mixed, strict=True)]


def jain(values: Sequence[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


# -- takeover ----------------------------------------------------------------------------------------------------------


def takeovers(bench: Bench) -> list[float]:
    """Seconds from SIGKILL of the process that holds a run to its claim by another."""
    slow = {"BENCH_MODEL_S": "3600"}
    times: list[float] = []
    with bench.workers() as workers:
        for _ in range(2):
            workers.start("ours.py", "delegation", str(SLOTS), "0", extra=slow)
        for _ in range(KILLS):
            times += asyncio.run(bench.ours(lambda base: one_kill(base, workers)))
            workers.start("ours.py", "delegation", str(SLOTS), "0", extra=slow)
    return times


async def one_kill(base: Base, workers: Workers) -> list[float]:
    user = f"k{new_id()}"
    await base.users.add(user)
    runs = await create(base, user, PER_KILL)

    async def holders() -> dict[str, tuple[str, int]]:
        fields = [await base.runs.fields(user, run) for run in runs]
        return {
            run: (one.get("worker", ""), int(one.get("claimed", 0)))
            for run, one in zip(runs, fields, strict=True)
            if one["state"] == "running"
        }

    found = await until(holders, lambda held: len(held) == PER_KILL)
    pids = [int(worker.rpartition(":")[2]) for worker, _ in found.values()]
    victim = max(set(pids), key=pids.count)
    mine = [run for run, (worker, _) in found.items() if worker.endswith(f":{victim}")]
    before = base.store.now_ms()
    workers.kill(victim)
    after = await until(holders, lambda held: all(run in held and held[run] != found[run] for run in mine))
    for run in runs:
        await base.runs.cancel(user, run)
    return [(after[run][1] - before) / 1000 for run in mine]


async def until(
    look: Callable[[], Awaitable[dict[str, tuple[str, int]]]], right: Callable[[dict[str, tuple[str, int]]], bool]
) -> dict[str, tuple[str, int]]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if right(found := await look()):
            return found
        await asyncio.sleep(0.05)
    raise SystemExit("the runs were not taken over in 30 s")


def main() -> None:
    sys.setswitchinterval(SWITCH_S)  # as the front does
    conditions()
    with tempfile.TemporaryDirectory() as root, EmbeddedServer(Path(root) / "home") as server:
        bench = Bench(server, Path(root))
        asyncio.run(bench.ours(add_users))
        chords = bare(bench, bare_chords)
        joins = measure(bench, "delegation", SLOTS, 0, our_joins)
        time_row("3 children -> join, instant model, p50", chords, *joins, 0.5, "<= 1.0 x a chord of three no-ops")
        time_row("3 children -> join, instant model, p95", chords, *joins, 0.95, "")
        in_flight(bench)
        with bench.workers() as workers:
            for _ in range(2):
                workers.start("ours.py", "delegation", str(SLOTS), "0", extra={"BENCH_MODEL_S": str(FAIR_MODEL_S)})
            shares = asyncio.run(bench.ours(fairness))
        print(
            f"fairness, one user with {HEAVY_RUNS} beside {LIGHT} with {LIGHT_RUNS}, model "
            f"{FAIR_MODEL_S * 1000:.0f} ms: Jain {jain(shares):.4f}, alone / mixed {min(shares):.2f} to "
            f"{max(shares):.2f}   goal >= 0.99"
        )
        times = takeovers(bench)
        print(
            f"takeover after SIGKILL, {len(times)} runs: min {min(times):.2f} s, median "
            f"{statistics.median(times):.2f} s, p95 {quantile(times, 0.95):.2f} s, max {max(times):.2f} s   "
            "goal <= 5 s, all"
        )


if __name__ == "__main__":
    main()
