"""Runs Celery's worker in this process: the threads pool, early ack, no chatter between workers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery, signals
from celery.platforms import SecurityWarning
from celery.utils.nodenames import host_format

from hermes_tasks.observe.ready import tell_ready


def serve_queues(app: Celery, name: str, slots: int, queues: Sequence[str], on_stop: Callable[[], None]) -> int:
    """Take doorbells from ``queues`` until SIGTERM; returns the exit code.

    Args:
        name: shown in Flower, with the process id.
        slots: task functions at once; each only waits for the event loop.
        on_stop: called when the stop begins. Celery then takes nothing new and waits for its threads.
    """
    # Tools drop to an unprivileged user themselves; Celery's advice is about pickle, which is never accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)

    def stopping(**_: Any) -> None:
        on_stop()

    def ready(**_: Any) -> None:
        tell_ready()

    signals.worker_shutting_down.connect(stopping, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    worker = app.Worker(
        hostname=host_format(f"{name}-{os.getpid()}@%h"),
        pool="threads",
        concurrency=slots,
        queues=list(queues),
        loglevel="WARNING",
        task_events=app.conf.worker_send_task_events,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
