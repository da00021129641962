"""The worker process: one role, one event loop, Celery's threads pool in front of it, recovery beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.contracts.models import ModelPort
from hermes_tasks.delivery.inbox import InboxDelivery
from hermes_tasks.memory.drain import Drainer, Render
from hermes_tasks.observe.leaving import leave
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.roles import ROLES
from hermes_tasks.runtime.serving import serve_queues
from hermes_tasks.runtime.tasks import bind
from hermes_tasks.runtime.watchdog import Watchdog, end_stuck_process
from hermes_tasks.settings import Settings
from hermes_tasks.store.address import store_url
from hermes_tasks.store.client import Store
from hermes_tasks.store.recovery import Recovery
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.wiring.base import Base, ProcessBell, StoreMaker, make_base, store_config
from hermes_tasks.wiring.sandbox import may_run_commands, tell_of_sandbox
from hermes_tasks.wiring.start import begin, not_started

if TYPE_CHECKING:
    from hermes_tasks.wiring.agents import Agents

_log = get_logger(__name__)
#: Queues whose work is no run.
RUNLESS: Final = frozenset({Queue.MEMORY, Queue.PREFETCH, Queue.CURATOR, Queue.DELIVERY})
#: Runs get this long to reach their next step at an orderly stop; then they are cut off and another worker goes on.
#: Shorter than the time until a supervisor kills (``stop_seconds`` in the process table, 6 s).
GRACE_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What may be handed in instead of the real thing.

    Attributes:
        model: answers in place of the configured models.
        render: makes the document of a channel entry.
        bell: rings in place of Celery.
        make_store: makes the connection to the records.
    """

    model: ModelPort | None = None
    render: Render | None = None
    bell: ProcessBell | None = None
    make_store: StoreMaker = Store


class WorkerProcess:
    """What the task functions of one process call; lives in its event loop.

    Args:
        runs: this process executes runs; one that only drains or delivers does without their libraries.
        queues: what it takes doorbells from.
    """

    def __init__(self, base: Base, renewer: Renewer, *, runs: bool, parts: Parts, queues: Sequence[Queue] = ()) -> None:
        self.base, self.renewer = base, renewer
        self.agents = compose_agents(base, parts) if runs else None
        self.drainer = Drainer(base.channel, batch=base.settings.memory.drain_batch, render=parts.render)
        self.delivery = InboxDelivery(base.jobs)
        self.recovery = Recovery(base.store, base.bell, queues=queues)
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check the store and begin to renew and to sweep."""
        await self.base.check()
        self.renewer.start()
        self._sweeping = asyncio.create_task(self.recovery.run(), name="recovery")

    async def advance(self, user: str, run: str) -> None:
        """Go on with a run, if it is free."""
        if self.agents is not None:
            await self.agents.runner.execute(user, run)

    async def drain(self, user: str, session: str, consumer: str) -> None:
        """Apply what waits in a channel."""
        await self.drainer.drain(user, session, consumer)

    async def deliver(self, user: str, delivery: str) -> None:
        """Hand over what is owed."""
        await self.delivery.deliver(user, delivery)

    async def reindex(self) -> None:
        """Rebuild the hints of every user."""
        _log.info("reindexed", users=await self.recovery.reindex())

    async def stop_taking(self, grace_s: float) -> None:
        """Runs stop at their next step or after ``grace_s``; leases are given back."""
        if self.agents is not None:
            await self.agents.runner.shut_down(grace_s)

    async def aclose(self) -> None:
        """Stop sweeping and close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self.agents is not None:
            await self.agents.aclose()
        await self.base.aclose()


def compose_agents(base: Base, parts: Parts) -> Agents:
    """What executes runs. Loaded only where it is used: the model client's library alone costs a second of start-up."""
    from hermes_tasks.wiring.agents import Agents  # noqa: PLC0415 - see above

    return Agents(base, model=parts.model)


def open_worker(
    settings: Settings, *, events: bool = True, runs: bool = True, parts: Parts | None = None,
    queues: Sequence[Queue] = (),
) -> WorkerProcess:  # fmt: skip
    """Compose one worker process; nothing is connected yet. Call it inside its event loop."""
    renewer = Renewer(store_url(settings), store_config(settings), on_stuck=end_stuck_process)
    parts = parts or Parts()
    base = make_base(settings, events=events, renewer=renewer, bell=parts.bell, make_store=parts.make_store)
    return WorkerProcess(base, renewer, runs=runs, parts=parts, queues=queues)


def run_worker(role: str, slots: int, *, parts: Parts | None = None, grace_s: float = GRACE_S) -> NoReturn:
    """Run one worker process until it is told to stop; does not return.

    Args:
        role: a name in ``ROLES``.
        slots: tasks at once, unless ``workers.<role>.slots`` is set.
        parts: what benchmarks and tests hand in instead of the real thing.
        grace_s: how long running work may take to reach its next step at SIGTERM.
    """
    settings = begin(f"worker:{role}")
    if may_run_commands(role):
        tell_of_sandbox(settings.tools)
    chosen = settings.workers.of(role)
    bridge = LoopBridge()
    bridge.start()

    async def compose() -> WorkerProcess:
        runs = not RUNLESS.issuperset(ROLES[role].queues)
        worker = open_worker(settings, events=chosen.events, runs=runs, parts=parts, queues=ROLES[role].queues)
        await worker.start()
        return worker

    try:
        worker = bridge.run(compose())
    except HermesTasksError as error:
        not_started("worker", error)
    watchdog = Watchdog(bridge.loop, bridge.thread_id)
    watchdog.start()
    app = worker.base.app
    bind(app, worker, bridge)

    def stop() -> None:
        asyncio.run_coroutine_threadsafe(worker.stop_taking(grace_s), bridge.loop)

    code = serve_queues(app, role, chosen.slots or slots, [str(queue) for queue in ROLES[role].queues], stop)
    watchdog.stop()
    bridge.run(worker.aclose())
    bridge.stop()
    leave(code)
