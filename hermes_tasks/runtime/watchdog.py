"""Reports an event loop that was blocked, with the stack that blocked it, and ends a process that is stuck."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from typing import Final

from hermes_tasks.observe.logging import get_logger

_log = get_logger(__name__)
_PACE_S: Final = 0.1
#: The exit code of a process that gave up on itself (EX_SOFTWARE); the supervisor starts another.
STUCK_EXIT: Final = 70


class Watchdog:
    """Watches one loop from a thread.

    Args:
        blocked_s: report a callback that held the loop longer than this.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, loop_thread: int | None, *, blocked_s: float = 0.1) -> None:
        self._loop, self._loop_thread, self._blocked_s = loop, loop_thread, blocked_s
        self._answered = threading.Event()
        self._stop = threading.Event()
        self.reports = 0

    def start(self) -> None:
        """Start watching."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(_PACE_S):
            self._answered.clear()
            asked = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the loop is closed
            if self._answered.wait(self._blocked_s):
                continue
            stack = self._stack()
            self._answered.wait()
            self.reports += 1
            _log.warning("event loop blocked", blocked_ms=round((time.monotonic() - asked) * 1000), stack=stack)

    def _stack(self) -> str:
        frames = sys._current_frames()  # noqa: SLF001 - the only way to look at another thread's stack
        frame = frames.get(self._loop_thread or 0)
        calls = traceback.extract_stack(frame)[-6:] if frame else []
        return " < ".join(f"{call.name}:{call.lineno}" for call in reversed(calls))


def end_stuck_process(silent_s: float) -> None:
    """The loop has not moved for ``silent_s`` seconds: leases are no longer renewed, so end and be started anew."""
    _log.error("event loop stuck: ending this process", silent_s=round(silent_s, 1))
    os._exit(STUCK_EXIT)
