"""What every process has: settings, a store, a bell, and the records behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.clock import Clock, SystemClock
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.runtime.app import App, make_app
from hermes_tasks.runtime.bell import CeleryBell
from hermes_tasks.settings import Settings
from hermes_tasks.store.address import broker_url, store_url
from hermes_tasks.store.channel import Channel
from hermes_tasks.store.client import Store, StoreConfig
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.store.memory import Memory
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.store.users import Users

StoreMaker = Callable[[str, StoreConfig], Store]

_log = get_logger(__name__)
#: What each kind of run may use. What is not named here is refused at execution, whatever a model asks for.
TOOLSETS: dict[RunKind, tuple[str, ...]] = {
    RunKind.TURN: ("delegation", "memory", "results"),
    RunKind.CHILD: ("terminal", "file", "web", "results"),
    RunKind.REVIEW: ("memory",),
    RunKind.CRON: ("terminal", "file", "web", "results"),
}
MEMORY_ACCESS: dict[RunKind, str] = {RunKind.TURN: "write", RunKind.REVIEW: "write", RunKind.CRON: "read"}


def policies(settings: Settings) -> dict[str, Policy]:
    """The limits of each kind that has a strategy."""
    return {
        str(kind): Policy(
            iterations=settings.policies.of(kind).iterations,
            deadline_s=settings.policies.of(kind).deadline_s,
            queue_deadline_s=settings.policies.of(kind).queue_deadline_s,
            toolsets=toolsets,
            memory=MEMORY_ACCESS.get(kind, "none"),
            model=settings.models.for_kind(kind),
        )
        for kind, toolsets in TOOLSETS.items()
    }


def store_config(settings: Settings) -> StoreConfig:
    """What the store's scripts must know of the settings."""
    windows = settings.windows
    return StoreConfig(
        lease_ms=settings.lease.length_ms,
        renew_ms=settings.lease.renew_ms,
        fresh_ms=settings.lease.fresh_ms,
        sweep_ms=settings.recovery.sweep_ms,
        ring_ms=settings.recovery.ring_again_ms,
        ring_max_ms=settings.recovery.ring_again_max_ms,
        max_attempts=settings.recovery.max_attempts,
        children_per_parent=windows.children_per_parent,
        windows={name: value for name, value in windows.model_dump().items() if name != "children_per_parent"},
        policies=policies(settings),
    )


class ProcessBell(Bell, Protocol):
    """A bell that belongs to one process and is closed with it."""

    def close(self) -> None:
        """Publish what waits, stop, and let go of the broker."""
        ...


@dataclass(frozen=True, slots=True)
class Base:
    """The records, and the bell that calls others to them."""

    settings: Settings
    clock: Clock
    app: App
    bell: ProcessBell
    store: Store
    renewer: Renewer | None
    users: Users
    sessions: Sessions
    runs: Runs
    channel: Channel
    memory: Memory
    jobs: Jobs

    async def check(self) -> Sequence[str]:
        """Look at the store; log what an operator must know.

        Raises:
            StoreUnavailable, InvalidRequest: it cannot be used.
        """
        warnings = await self.store.check()
        for warning in warnings:
            _log.warning(warning)
        return warnings

    async def aclose(self) -> None:
        """Close everything, last bells included."""
        if self.renewer is not None:
            self.renewer.stop()
        self.bell.close()
        await self.store.aclose()


def make_base(
    settings: Settings,
    *,
    events: bool = True,
    renewer: Renewer | None = None,
    bell: ProcessBell | None = None,
    make_store: StoreMaker = Store,
) -> Base:
    """Join the records.

    Args:
        renewer: None = this process claims nothing.
        bell: None = doorbells go through Celery's broker.
        make_store: makes the connection to the records.
    """
    app = make_app(broker_url(settings), events=events)
    bell = bell or CeleryBell(app)
    store = make_store(store_url(settings), store_config(settings))
    return Base(
        settings=settings,
        clock=SystemClock(),
        app=app,
        bell=bell,
        store=store,
        renewer=renewer,
        users=Users(store),
        sessions=Sessions(store, bell, max_waiting=settings.front.max_waiting_messages),
        runs=Runs(store, bell, renewer),
        channel=Channel(store, bell, renewer, kept=settings.memory.turns_kept),
        memory=Memory(store),
        jobs=Jobs(store, bell),
    )
