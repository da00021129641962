"""What the benchmarks share: one store, both sides of a ratio, and the table."""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path

import redis
from _fleet import Workers, quantile
from bare import bare_app

from hermes_tasks.settings import load
from hermes_tasks.store.address import store_url
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.wiring.base import Base, make_base, store_config

USERS = 10
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


def conditions() -> None:
    """The first lines of the table: where it was measured, and its columns."""
    cores, python = os.cpu_count(), platform.python_version()
    print(f"{platform.machine()}, {cores} cores, Python {python}, one embedded store, AOF everysec")
    print(f"{'':<44} {'bare':>11} {'ours':>11} {'ratio':>8} {'no events':>8}   goal")


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
