"""The bell on a real broker: ids only, never in the caller's way, and back by itself."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.runtime.app import make_app
from hermes_tasks.runtime.bell import CeleryBell
from hermes_tasks.store.address import broker_url
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import make_base
from tests.integration.composed import settings_for

pytestmark = pytest.mark.anyio

SECRET = "my lawyer is called Aurelia"


def turn(run: str) -> Ring:
    return Ring(Queue.TURNS, "turn", ("ann", run))


@contextmanager
def broker(url: str) -> Iterator[Any]:
    client = redis.Redis.from_url(url, protocol=2)
    try:
        yield client
    finally:
        client.close()


def rung(client: Any, queue: Queue = Queue.TURNS) -> list[list[str]]:
    """The arguments of the messages of a queue, oldest first."""
    raw = [json.loads(message) for message in reversed(client.lrange(str(queue), 0, -1))]
    return [json.loads(base64.b64decode(message["body"]))[0] for message in raw]


async def test_a_message_holds_ids_and_no_word_of_the_user(store_url: str, tmp_path: Path) -> None:
    base = make_base(settings_for(store_url, tmp_path))
    await base.users.add("ann")
    await base.sessions.open("ann", "s1")
    run = (await base.sessions.post("ann", "s1", SECRET)).message
    await base.jobs.add("ann", "j1", SECRET, SECRET, {}, base.store.now_ms() + 60_000, 10)
    await base.jobs.fire("ann", "j1", "1", (await base.jobs.all("ann"))[0]["next"], 0, "f1", missed=False, skipped=0)
    await base.aclose()
    with broker(broker_url(base.settings)) as client:
        assert rung(client) == [["ann", run]]
        assert rung(client, Queue.CRON) == [["ann", "f1"]]
        [raw] = client.lrange("turns", 0, -1)
        message = json.loads(raw)
        assert message["headers"]["task"] == "hermes.turn"
        assert message["content-type"] == "application/json"
        everything = [client.dump(key) for key in client.keys("*")]
        assert everything
        assert not any(word.encode() in raw + b"".join(everything) for word in ("lawyer", "Aurelia"))


async def test_a_burst_arrives_whole_and_in_order(store_server: EmbeddedServer, store_url: str) -> None:
    bell = CeleryBell(make_app(store_server.broker_url))
    await bell.ring([turn(f"r{number}") for number in range(200)])
    await bell.ring([])
    await bell.ring([turn("last")])
    bell.close()
    with broker(store_server.broker_url) as client:
        assert [args[-1] for args in rung(client)] == [*(f"r{number}" for number in range(200)), "last"]


async def test_a_broker_that_is_away_blocks_nobody_and_is_found_again(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "broker") as server, capture_logs() as lines:
        bell = CeleryBell(make_app(server.broker_url))
        await bell.ring([turn("before")])
        with broker(server.broker_url) as client:
            await eventually(lambda: rung(client) == [["ann", "before"]])
        server.kill()
        longest, looks = 0.0, 0
        began = before = time.monotonic()
        while not any("bell not published" in line["event"] for line in lines):
            if looks < 3:
                await bell.ring([turn(f"lost {looks}")])
            await asyncio.sleep(0)
            longest, before, looks = max(longest, time.monotonic() - before), time.monotonic(), looks + 1
            assert before - began < 20
        assert longest < 0.5, "the event loop went on all the time"
        warning = next(line for line in lines if "bell not published" in line["event"])
        assert warning["log_level"] == "warning"
        assert "recovery rings again" in warning["event"]
        server.start()
        await bell.ring([turn("after")])
        with broker(server.broker_url) as client:
            await eventually(lambda: "after" in [args[-1] for args in rung(client)], 20.0)
        bell.close()


async def test_too_many_bells_for_a_broker_that_is_away_are_dropped_and_said_so() -> None:
    bell = CeleryBell(make_app("redis://127.0.0.1:1/1"))
    bell._started = True  # its thread never runs: nothing is published
    await bell.ring([turn(f"r{number}") for number in range(10_000)])
    with capture_logs() as lines:
        await bell.ring([turn("one"), turn("more")])
    assert [(line["bells"], line["log_level"]) for line in lines] == [(2, "warning")]
    assert bell._waiting.qsize() == 10_000
