"""One worker for turns and children alike, with few slots. Run by path: ``python both.py <slots>``."""

from __future__ import annotations

import sys

from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.observe.leaving import leave
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.serving import serve_queues
from hermes_tasks.runtime.tasks import bind
from hermes_tasks.wiring.start import begin
from hermes_tasks.wiring.worker import WorkerProcess, open_worker


def main(slots: str) -> None:
    settings = begin("worker:both")
    bridge = LoopBridge()
    bridge.start()

    async def compose() -> WorkerProcess:
        worker = open_worker(settings)
        await worker.start()
        return worker

    worker = bridge.run(compose())
    bind(worker.base.app, worker, bridge)
    queues = [str(Queue.TURNS), str(Queue.DELEGATION)]
    leave(serve_queues(worker.base.app, "both", int(slots), queues, lambda: None))


if __name__ == "__main__":
    main(*sys.argv[1:])
