"""A busy loop keeps its leases; a stuck one ends its process, and another goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.watchdog import STUCK_EXIT, Watchdog
from hermes_tasks.testing.local_bell import LocalBell
from hermes_tasks.testing.model import said
from hermes_tasks.wiring.worker import Parts, WorkerProcess, open_worker
from tests.integration.composed import QUICK, process, settings_for

pytestmark = pytest.mark.anyio

BUSY_S = 2.0
LEASE_S = QUICK["lease"]["length_ms"] / 1000


async def test_leases_are_renewed_while_the_loop_is_busy(store_url: str, tmp_path: Path) -> None:
    """One callback computes for several lease lengths. Another process sweeps all the while, in a loop of its own."""
    bridge = LoopBridge()
    bridge.start()
    takeovers: list[int] = []

    async def sweeper() -> WorkerProcess:
        made = open_worker(settings_for(store_url, tmp_path, **QUICK), parts=Parts(bell=LocalBell()))
        made.recovery._on_takeover = takeovers.append
        await made.start()
        return made

    def busy(request: ModelRequest) -> ModelStep:
        until = time.monotonic() + BUSY_S
        while time.monotonic() < until:
            pass
        return said("computed")

    other = bridge.run(sweeper())
    try:
        async with process(store_url, tmp_path, busy, **QUICK) as one:
            run = await one.say("compute")
            record = await one.ended(run)
            assert BUSY_S > 3 * LEASE_S
            assert (record.state, record.attempts, record.takeovers) == (RunState.COMPLETED, 0, 0)
            assert takeovers == []
    finally:
        bridge.run(other.aclose())
        bridge.stop()


async def test_the_watchdog_of_a_worker_sees_what_blocks_its_loop(store_url: str, tmp_path: Path) -> None:
    def computing_too_long(request: ModelRequest) -> ModelStep:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        return said("computed")

    bridge = LoopBridge()
    bridge.start()

    async def turn() -> RunState:
        async with process(store_url, tmp_path, computing_too_long) as one:
            return (await one.turn("compute")).state

    watchdog = Watchdog(bridge.loop, bridge.thread_id)
    with capture_logs() as lines:
        watchdog.start()
        assert bridge.run(turn()) is RunState.COMPLETED
        watchdog.stop()
    bridge.stop()
    assert any("computing_too_long" in line.get("stack", "") for line in lines)


STUCK = """
import asyncio, sys, threading
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.client import StoreConfig
from hermes_tasks.runtime.watchdog import end_stuck_process

async def main():
    renewer = Renewer(sys.argv[1], StoreConfig(renew_ms=50), on_stuck=end_stuck_process, stuck_s=0.3)
    renewer.start()
    await asyncio.sleep(0.2)
    print("moving", flush=True)
    threading.Event().wait()

asyncio.run(main())
"""


def test_a_process_whose_loop_is_stuck_ends_by_itself(store_url: str) -> None:
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", STUCK, store_url], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == STUCK_EXIT
    assert "moving" in ended.stdout
    assert "event loop stuck" in ended.stdout + ended.stderr
    assert time.monotonic() - began < 30


FROZEN = """
import asyncio, sys
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.client import StoreConfig
from hermes_tasks.runtime.watchdog import end_stuck_process

async def main():
    renewer = Renewer(sys.argv[1], StoreConfig(renew_ms=50), on_stuck=end_stuck_process, stuck_s=1.0)
    renewer.start()
    print("moving", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.sleep(0.5)  # ten more looks at the loop
    renewer.stop()

asyncio.run(main())
"""


def test_a_process_that_was_frozen_as_a_whole_is_not_stuck(store_url: str) -> None:
    command = [sys.executable, "-c", FROZEN, store_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"moving\n"
        process.send_signal(signal.SIGSTOP)
        threading.Event().wait(1.5)  # the length of the freeze is what is tested
        process.send_signal(signal.SIGCONT)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(30) == 0
