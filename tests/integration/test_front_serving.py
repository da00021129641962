"""The front as a server: full stores, taken ports, what it logs, and signals to a real process."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest
import structlog

from hermes_tasks.contracts.errors import Conflict
from hermes_tasks.front import create_app, serve
from hermes_tasks.observe.ports import free_port
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.front_stack import front, opened, posted

pytestmark = pytest.mark.anyio


async def test_a_full_store_takes_no_new_work_and_lets_old_work_end(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path, max_memory_mb=32) as server:
        async with front(server.url, play=None) as stack, await stack.http("ada") as ada:
            session, pressure = await opened(ada), stack.server._state.pressure
            message = await posted(ada, session, "before it was full")
            await pressure.look()
            assert 0 < pressure.level < 0.85
            filler = [("SET", f"filler:{n}", "x" * 1_000_000) for n in range(28)]
            await stack.services.store.read(*filler)
            await pressure.look()
            for path, body in (
                ("/v1/sessions", {}),
                (f"/v1/sessions/{session}/messages", {"text": "more"}),
                ("/v1/jobs", {"prompt": "more", "every": "1h"}),
            ):
                refused = await ada.post(path, json=body)
                assert (refused.status_code, refused.json()["error"]["type"]) == (503, "store_full"), path
                assert int(refused.headers["retry-after"]) > 0
            assert (await ada.get(f"/v1/sessions/{session}/history")).status_code == 200
            assert (await ada.post(f"/v1/runs/{message}/cancel")).json()["state"] == "cancelled"
            await stack.services.store.read(*(("DEL", name) for _, name, _ in filler))
            await pressure.look()
            assert (await ada.post(f"/v1/sessions/{session}/messages", json={"text": "more"})).status_code == 202


async def test_a_store_that_is_away_keeps_its_level(store_server: EmbeddedServer, store_url: str) -> None:
    async with front(store_url) as stack:
        pressure = stack.server._state.pressure
        await pressure.look()
        before = pressure.level
        store_server.kill()
        await pressure.look()
        assert pressure.level == before > 0
        store_server.start()


async def test_a_taken_port_is_told_in_one_line(store_url: str) -> None:
    async with front(store_url) as stack:
        with pytest.raises(Conflict, match=rf"^port {stack.server.port} on 127\.0\.0\.1 is taken.*front\.port$"):
            await serve(create_app(stack.services), "127.0.0.1", stack.server.port)


async def test_log_lines_carry_ids_and_no_text(store_url: str) -> None:
    with structlog.testing.capture_logs() as lines:
        async with front(store_url) as stack, await stack.http("ada") as ada:
            session = await opened(ada)
            await posted(ada, session, "SECRET-TEXT")
            await ada.post(f"/v1/sessions/{session}/messages?q=SECRET-QUERY", json={"text": "SECRET-TEXT", "SECRET": 1})
            await ada.get("/v1/sessions/SECRET%20PATH")
            await ada.get("/SECRET/ROUTE")
            await eventually(lambda: not stack.turns)
    logged = [line for line in lines if line["event"] == "request"]
    sent = next(line for line in logged if line["status"] == 202)
    assert (sent["user"], sent["session"], sent["method"]) == ("ada", session, "POST")
    assert sent["route"].endswith("/sessions/{session}/messages")
    assert sent["duration_ms"] > 0
    assert [line["status"] for line in logged] == [201, 202, 400, 404, 404]
    assert "SECRET" not in str(lines)


async def test_a_fault_of_ours_is_answered_without_its_story(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        await stack.services.store.read(("SET", f"ht:{{u:ada}}:hist:{session}", "not a list"))
        with caplog.at_level(logging.ERROR):
            failed = await ada.get(f"/v1/sessions/{session}/history")
    assert (failed.status_code, failed.json()["error"]["type"]) == (500, "internal")
    assert "WRONGTYPE" not in failed.text
    assert "WRONGTYPE" in caplog.text


PROCESS = """
    import asyncio, sys
    from tests.integration.front_stack import CONFIG
    from hermes_tasks.testing.bell import RecordingBell
    from hermes_tasks.front import FrontServices, create_app, serve
    from hermes_tasks.store.channel import Channel
    from hermes_tasks.store.client import Store
    from hermes_tasks.store.events import EventReader
    from hermes_tasks.store.jobs import Jobs
    from hermes_tasks.store.memory import Memory
    from hermes_tasks.store.runs import Runs
    from hermes_tasks.store.sessions import Sessions
    from hermes_tasks.store.users import Users

    async def main(url, port):
        store, bell = Store(url, CONFIG), RecordingBell()
        events = EventReader(store)
        await events.start()
        services = FrontServices(
            store=store, users=Users(store), sessions=Sessions(store, bell), runs=Runs(store, bell),
            jobs=Jobs(store, bell), memory=Memory(store), channel=Channel(store, bell), events=events,
            start_turn=lambda user, run: None, add_job=None,
        )
        await serve(create_app(services), "127.0.0.1", port)
        await events.aclose()
        await store.aclose()
        print("closed in order", flush=True)

    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(store_url: str, number: signal.Signals) -> None:
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220 - it starts at once
        [sys.executable, "-c", textwrap.dedent(PROCESS), store_url, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        async with front(store_url) as stack:
            key = await stack.key("ada")
            await stack.services.sessions.open("ada", "s")
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False) as ada:
            await eventually(lambda: well(ada), deadline=30)
            async with ada.stream("GET", "/v1/sessions/s/events") as response:
                assert response.status_code == 200
                began = time.monotonic()
                process.send_signal(number)
                _ = [chunk async for chunk in response.aiter_bytes()]
                output, _ = await asyncio.to_thread(process.communicate, timeout=10)
            assert time.monotonic() - began < 5
            assert process.returncode == 0
            assert output.endswith("closed in order\n")
    finally:
        process.kill()
        process.wait()


async def well(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/healthz")).status_code == 200
    except httpx.TransportError:
        return False
