"""The other side of every ratio: a bare Celery worker. Threads pool, 16 slots, no events, early ack, prefetch 4."""

from __future__ import annotations

import os
import sys
import threading
import time

import redis
from celery import Celery, signals


def bare_app(broker: str, backend: str) -> Celery:
    app = Celery("bare", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(
        task_serializer="json", accept_content=["json"], worker_hijack_root_logger=False, task_default_queue="bare",
        broker_connection_retry_on_startup=True, worker_redirect_stdouts=False,
    )  # fmt: skip

    @app.task(name="noop")
    def noop(*_args: object) -> int:
        return 1

    @app.task(name="join")
    def join(results: list[int]) -> int:
        return sum(results)

    done = {"count": 0}
    guard = threading.Lock()

    @app.task(name="body", ignore_result=True)
    def body(body_ms: float, total: int) -> None:
        time.sleep(body_ms / 1000)
        with guard:
            done["count"] += 1
            finished = done["count"] == total
            if finished:
                done["count"] = 0
        if finished:  # once per burst: what is measured costs Celery nothing
            redis.Redis.from_url(backend).rpush("bare:done", "1")

    return app


def main(broker: str, backend: str) -> None:
    app = bare_app(broker, backend)

    @signals.worker_ready.connect(weak=False)
    def ready(**_: object) -> None:
        sys.stdout.write(os.environ["BENCH_READY"] + "\n")
        sys.stdout.flush()

    app.Worker(
        pool="threads", concurrency=16, queues=["bare"], loglevel="ERROR", task_events=False, without_gossip=True,
        without_mingle=True, quiet=True,
    ).start()  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
