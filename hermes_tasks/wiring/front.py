"""The front process: HTTP, event streams, and the first leg of every turn that begins here."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.cron.jobs import JobDesk
from hermes_tasks.front.app import FrontServices, create_app
from hermes_tasks.front.serving import serve
from hermes_tasks.observe.leaving import leave
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.settings import Settings
from hermes_tasks.store.events import EventReader
from hermes_tasks.wiring.start import begin, not_started
from hermes_tasks.wiring.worker import WorkerProcess, open_worker

_log = get_logger(__name__)


class LocalTurns:
    """Executes turns that begin in this process, in its own loop.

    A turn that waits for children is resumed by a worker, and one that is cut off by our end is taken over by one.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, user: str, run: str) -> None:
        """Begin executing; returns at once."""
        task = asyncio.create_task(self._worker.advance(user, run), name=f"turn {run}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("turn stopped here; a worker takes it over", reason=f"{type(error).__name__}: {error}")


async def _serve(settings: Settings) -> None:
    worker = open_worker(settings)
    base = worker.base
    await worker.start()
    events = EventReader(base.store)
    await events.start()
    desk = JobDesk(
        base.jobs,
        base.users,
        base.clock,
        min_interval_s=settings.cron.min_interval_s,
        limit=settings.cron.jobs_per_user,
    )
    services = FrontServices(
        users=base.users, sessions=base.sessions, runs=base.runs, jobs=base.jobs, memory=base.memory,
        channel=base.channel, events=events, store=base.store, front=settings.front,
        memory_limits=settings.memory, budget=settings.budget,
        start_turn=LocalTurns(worker).start, add_job=desk.add, clock=base.clock,
    )  # fmt: skip
    try:
        await serve(create_app(services), settings.front.host, settings.front.port)
    finally:
        await worker.stop_taking(1.0)
        await events.aclose()
        await worker.aclose()


def run_front() -> NoReturn:
    """Run the front until it is told to stop; does not return."""
    settings = begin("front")
    try:
        asyncio.run(_serve(settings))
    except HermesTasksError as error:
        not_started("front", error)
    leave(0)
