"""The task functions: one per kind of doorbell, ids in, nothing out. All logic lives behind ``work``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from celery import Celery

from hermes_tasks.runtime.app import TASK_PREFIX
from hermes_tasks.runtime.bridge import LoopBridge


class Work(Protocol):
    """What the doorbells ask for. Every method may be called any number of times for one record."""

    async def advance(self, user: str, run: str) -> None:
        """Go on with a run, if it is free."""
        ...

    async def drain(self, user: str, session: str, consumer: str) -> None:
        """Apply what waits in a channel."""
        ...

    async def deliver(self, user: str, delivery: str) -> None:
        """Hand over what is owed."""
        ...

    async def reindex(self) -> None:
        """Rebuild the hints of every user."""
        ...


def bind(app: Celery, work: Work, bridge: LoopBridge) -> None:
    """Register the task functions on ``app``."""

    def task(name: str) -> Callable[[Callable[..., None]], object]:
        # Not shared: Celery would give these functions, bound to this process's work, to every later app as well.
        registered: Callable[[Callable[..., None]], object] = app.task(name=TASK_PREFIX + name, shared=False)
        return registered

    @task("turn")
    def turn(user: str, run: str) -> None:
        bridge.run(work.advance(user, run))

    @task("child")
    def child(user: str, run: str) -> None:
        bridge.run(work.advance(user, run))

    @task("review")
    def review(user: str, run: str) -> None:
        bridge.run(work.advance(user, run))

    @task("cron")
    def cron(user: str, run: str) -> None:
        bridge.run(work.advance(user, run))

    @task("drain")
    def drain(user: str, session: str, consumer: str) -> None:
        bridge.run(work.drain(user, session, consumer))

    @task("deliver")
    def deliver(user: str, delivery: str) -> None:
        bridge.run(work.deliver(user, delivery))

    @task("reindex")
    def reindex() -> None:
        bridge.run(work.reindex())
