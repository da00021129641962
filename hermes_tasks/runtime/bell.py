"""Publishes doorbells from a thread of its own, so the event loop never waits for a broker."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Final

from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.runtime.app import TASK_PREFIX

_log = get_logger(__name__)
#: More than this many unpublished bells are dropped, newest first: recovery rings for the records anyway.
_MOST: Final = 10_000


class CeleryBell:
    """See :class:`hermes_tasks.contracts.bell.Bell`. A bell that cannot be published is logged and left to recovery."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: queue.SimpleQueue[Ring | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._publish_all, name="bell", daemon=True)
        self._started = False

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Hand the bells to the publishing thread; returns at once."""
        if not rings:
            return
        if not self._started:
            self._started = True
            self._thread.start()
        if self._waiting.qsize() >= _MOST:
            _log.warning("bells dropped, too many wait for the broker; recovery rings again", bells=len(rings))
            return
        for ring in rings:
            self._waiting.put(ring)

    def close(self) -> None:
        """Publish what waits (up to 2 s), stop, and close the broker's connections."""
        if self._started:
            self._waiting.put(None)
            self._thread.join(2)
        self._app.close()

    def _publish_all(self) -> None:
        while (ring := self._waiting.get()) is not None:
            try:
                with self._app.producer_pool.acquire(block=True, timeout=5) as producer:
                    while ring is not None:
                        name, queue_name = TASK_PREFIX + ring.task, str(ring.queue)
                        self._app.send_task(name, args=ring.args, queue=queue_name, producer=producer, retry=False)
                        try:
                            ring = self._waiting.get_nowait()
                        except queue.Empty:
                            break
                    else:
                        return
            except (OperationalError, KombuError, OSError) as error:
                _log.warning("bell not published; recovery rings again", error=type(error).__name__)
