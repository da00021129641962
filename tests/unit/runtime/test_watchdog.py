"""The watchdog reports a loop that was blocked, with what blocked it, and a stuck process ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.watchdog import STUCK_EXIT, Watchdog


@pytest.fixture
def bridge() -> Iterator[LoopBridge]:
    made = LoopBridge()
    made.start()
    yield made
    made.stop()


def wait_until(condition) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.01)


def a_call_that_blocks(release: threading.Event) -> None:
    release.wait(10)


def test_a_blocked_loop_is_reported_with_its_stack(bridge: LoopBridge) -> None:
    watchdog, release = Watchdog(bridge.loop, bridge.thread_id, blocked_s=0.05), threading.Event()
    with capture_logs() as lines:
        watchdog.start()
        bridge.loop.call_soon_threadsafe(a_call_that_blocks, release)
        release.wait(0.5)
        release.set()
        wait_until(lambda: watchdog.reports)
        watchdog.stop()
    [line] = lines
    assert (line["event"], line["log_level"]) == ("event loop blocked", "warning")
    assert "a_call_that_blocks" in line["stack"]
    assert 50 <= line["blocked_ms"] < 5000


def test_a_loop_that_moves_is_not_reported(bridge: LoopBridge) -> None:
    watchdog = Watchdog(bridge.loop, bridge.thread_id, blocked_s=5.0)
    asked: list[int] = []
    call_soon = bridge.loop.call_soon_threadsafe

    def counting(function, *args):
        asked.append(1)
        return call_soon(function, *args)

    bridge.loop.call_soon_threadsafe = counting
    with capture_logs() as lines:
        watchdog.start()
        wait_until(lambda: len(asked) > 3)
        watchdog.stop()
    assert (lines, watchdog.reports) == ([], 0)


def test_it_ends_with_its_loop() -> None:
    bridge = LoopBridge()
    bridge.start()
    Watchdog(bridge.loop, bridge.thread_id).start()
    bridge.stop()
    wait_until(lambda: "watchdog" not in {thread.name for thread in threading.enumerate()})


def test_a_stuck_process_ends_at_once_with_its_own_exit_code() -> None:
    """Also with threads at work that would keep it alive, and without running their clean-up."""
    program = (
        "import threading\n"
        "from hermes_tasks.runtime.watchdog import end_stuck_process\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "end_stuck_process(12.34)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == STUCK_EXIT == 70
    assert "event loop stuck" in ended.stdout + ended.stderr
    assert "12.3" in ended.stdout + ended.stderr
