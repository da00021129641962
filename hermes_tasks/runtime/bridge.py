"""One event loop per worker process, on a thread of its own; Celery's threads hand coroutines to it and wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopBridge:
    """Clients and pools live as long as this loop, so never one loop per task."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)

    @property
    def thread_id(self) -> int | None:
        """The loop's thread, for the watchdog's stack report."""
        return self._thread.ident

    def start(self) -> None:
        """Start the loop's thread."""
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return what it returns; called from any other thread.

        Raises:
            RuntimeError: called from the loop's own thread, where waiting would dead-lock.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("bridge.run called from its own loop: await instead")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        """Stop the loop; coroutines still in it are cancelled and awaited."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self.loop).result(5)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(5)
        if not self.loop.is_running():
            self.loop.close()

    async def _cancel_all(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=3) if others else None

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
