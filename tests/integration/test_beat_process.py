"""Celery's beat process with our scheduler: fires on time, beside others, through a store that comes and goes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import redis

from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.cron.schedule import Schedule
from hermes_tasks.observe.ready import READY_VARIABLE, told_ready
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import Base, make_base
from tests.crash.fleet import Fleet
from tests.integration.composed import USER

pytestmark = pytest.mark.anyio


async def a_job(base: Base, job: str, in_ms: int) -> int:
    """A job of that user that comes once, in so many milliseconds; returns its planned time."""
    at = base.store.now_ms() + in_ms
    await base.jobs.add(USER, job, job, f"do {job}", Schedule(at_ms=at).wire(), at, 10)
    return at


async def crons(base: Base) -> list[RunRecord]:
    return [record for record in await base.runs.recent(USER) if record.kind is RunKind.CRON]


@asynccontextmanager
async def beating(server: EmbeddedServer, root: Path, count: int) -> AsyncIterator[tuple[Base, Fleet]]:
    """The records of a user, and that many beats that have ticked; they are ended in order."""
    ready = root / "ticking"
    ready.mkdir()
    with Fleet(root, server, model_port=1, extra={READY_VARIABLE: str(ready)}) as fleet:
        async with aclosing(make_base(fleet.settings)) as base:
            await base.users.add(USER)
            beats = fleet.start("beat", count)
            try:
                await eventually(lambda: all(told_ready(ready, beat.pid) for beat in beats), 30.0, "all beats to tick")
            except AssertionError as error:
                raise AssertionError(fleet.logs()) from error
            yield base, fleet
            await ended(beats)
            assert "Traceback" not in fleet.logs()


async def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM ends each in order and soon."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    codes = [await asyncio.to_thread(process.wait, 30) for process in processes]
    assert codes == [0] * len(processes)
    assert time.monotonic() - began < 5


async def test_two_beats_fire_a_job_once_on_time_and_ring_a_system_entry_once(
    store_server: EmbeddedServer, store_url: str, tmp_path: Path
) -> None:
    async with beating(store_server, tmp_path, 2) as (base, fleet):
        at = await a_job(base, "digest", 2_000)
        assert await crons(base) == []
        [record] = await eventually(lambda: crons(base), 15.0, fleet.logs())
        assert record.id == derived_id("fire", USER, "digest", at)
        assert (record.state, record.spec["prompt"]) == (RunState.QUEUED, "do digest")
        assert 0 <= record.created - at < 1_500, "not before its time, and soon after it"
        [slot] = await base.jobs.ledger(USER, "digest")
        assert (slot["slot"], slot["state"]) == (at, "running")
        client = redis.Redis.from_url(store_server.broker_url, protocol=2)
        await eventually(lambda: client.llen("cron") == 1)
        assert client.llen("curator") == 1, "two beats, one doorbell for the hour's slot"
        client.close()


async def test_beat_goes_on_when_the_store_was_away(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "home") as server:
        async with beating(server, tmp_path, 1) as (base, fleet):
            server.kill()
            await eventually(lambda: "tick failed" in fleet.logs(), 20.0, fleet.logs())
            assert len(fleet.alive("beat")) == 1
            server.start()
            at = await a_job(base, "digest", 300)
            [record] = await eventually(lambda: crons(base), 20.0, fleet.logs())
            assert record.id == derived_id("fire", USER, "digest", at)
