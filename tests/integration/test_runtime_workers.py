"""Real worker processes, run by path: what they refuse to read, and how they stop."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import signal
import subprocess
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import redis

from hermes_tasks.contracts.exits import ExitCode
from hermes_tasks.contracts.kinds import Queue, RunKind, RunState
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.contracts.runs import NewRun
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.store.channel import BUILTIN
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import Base, make_base, policies, store_config
from tests.crash.fleet import Fleet
from tests.integration.composed import SESSION, USER

pytestmark = pytest.mark.anyio

ENTRIES = 400


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mknod, (str(self.path),)


def publish_pickle(url: str, queue: Queue, path: Path) -> None:
    """A message as somebody with access to the broker would forge it."""
    name = str(uuid.uuid4())
    body = base64.b64encode(pickle.dumps(((Touch(path),), {}, {}))).decode()
    message = {
        "body": body,
        "content-encoding": "binary",
        "content-type": "application/x-python-serialize",
        "headers": {"lang": "py", "task": "hermes.drain", "id": name, "root_id": name},
        "properties": {
            "correlation_id": name, "delivery_mode": 2, "delivery_tag": name, "body_encoding": "base64", "priority": 0,
            "delivery_info": {"exchange": "", "routing_key": str(queue)},
        },
    }  # fmt: skip
    client = redis.Redis.from_url(url, protocol=2)
    client.lpush(str(queue), json.dumps(message))
    client.close()


async def stopped(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Exit code, and the seconds from SIGTERM to it."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(process.wait, 30)
    return code, time.monotonic() - began


@asynccontextmanager
async def opened(server: EmbeddedServer, root: Path, model_port: int = 1) -> AsyncIterator[tuple[Fleet, Base]]:
    """A fleet without processes, and its records with a user and a session; the test may claim as well."""
    with Fleet(root, server, model_port) as fleet:
        renewer = Renewer(server.url, store_config(fleet.settings))
        renewer.start()
        async with aclosing(make_base(fleet.settings, renewer=renewer)) as base:
            await base.users.add(USER)
            await base.sessions.open(USER, SESSION)
            yield fleet, base


async def test_a_memory_worker_refuses_pickle_drains_and_stops_in_order(
    store_server: EmbeddedServer, store_url: str, tmp_path: Path
) -> None:
    made = tmp_path / "made-by-pickle"
    async with opened(store_server, tmp_path) as (fleet, base):
        publish_pickle(store_server.broker_url, Queue.MEMORY, made)
        for number in range(ENTRIES):
            data = {"user": f"word {number} " * 100, "assistant": "yes " * 400, "origin": "user"}
            await base.channel.append(USER, SESSION, EntryKind.TURN, data, turn=number + 1, turn_id=f"t{number}")
        [worker] = fleet.start("memory")
        try:
            await eventually(lambda: applied(base), 30.0, "the first entries to be applied")
        except AssertionError as error:
            raise AssertionError(fleet.logs()) from error
        code, seconds = await stopped(worker)
        assert code == 0, fleet.logs()
        assert seconds < 8
        assert not made.exists(), "nothing was unpickled"
        assert "Refusing to deserialize untrusted content of type pickle" in fleet.logs()
        last, done = await base.channel.state(USER, SESSION)
        assert last == ENTRIES
        [holder] = await base.store.read(("HGET", user_key(USER, f"cur:{SESSION}|{BUILTIN}"), "holder"))
        assert not holder, "the lease of the channel was given back"
        kept = await base.memory.turns(USER, ENTRIES)
        assert sorted(turn["turn"] for turn in kept) == list(range(1, done + 1)), "applied once, in order"
        if done < last:
            draining = await base.channel.claim(USER, SESSION, BUILTIN, 1)
            assert draining is not None, "another worker can go on at once"


async def applied(base: Base) -> int:
    return (await base.channel.state(USER, SESSION))[1]


async def test_a_worker_with_a_run_in_hand_gives_it_back_and_stops(
    store_server: EmbeddedServer, store_url: str, tmp_path: Path
) -> None:
    """The model does not answer; the run is cut off, queued again without a counted attempt, and rung for."""
    with ModelServer.threaded(lambda _: Reply(text="late", delay=60.0)) as model:
        async with opened(store_server, tmp_path, model.port) as (fleet, base):
            spec = {"job": "j1", "name": "digest", "prompt": "what is new", "slot": 1}
            policy = policies(fleet.settings)["cron"]
            await base.runs.create(NewRun(id="f1", kind=RunKind.CRON, user=USER, spec=spec, policy=policy))
            [worker] = fleet.start("cron")
            try:
                await asyncio.to_thread(model.wait, lambda server: server.open == 1, 30.0)
            except TimeoutError as error:
                raise AssertionError(fleet.logs()) from error
            record = await base.runs.get(USER, "f1")
            assert record.state is RunState.RUNNING
            assert record.worker.endswith(f":{worker.pid}")
            code, seconds = await stopped(worker)
            assert code == 0, fleet.logs()
            assert seconds < 8
            fields = await base.runs.fields(USER, "f1")
            assert (fields["state"], fields["holder"], fields.get("attempts", "0")) == ("queued", "", "0")
            journal = await base.runs.claim(USER, "f1")
            assert journal is not None, "another worker can go on at once"


async def test_a_worker_without_a_store_says_so_and_ends(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "home") as server:
        fleet = Fleet(tmp_path, server, model_port=1)
    with fleet:
        [worker, beat] = [*fleet.start("memory"), *fleet.start("beat")]
        assert await asyncio.to_thread(worker.wait, 30) == ExitCode.STORE_UNREACHABLE
        assert await asyncio.to_thread(beat.wait, 30) == ExitCode.STORE_UNREACHABLE
        for line in ("worker not started", "beat not started"):
            assert line in fleet.logs()
        assert "Traceback" not in fleet.logs()
