"""The beat process: Celery's beat with our scheduler class."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

from hermes_tasks.contracts.errors import HermesTasksError, InvalidRequest
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.cron.firing import Firing
from hermes_tasks.deploy import deploy_path
from hermes_tasks.observe.leaving import leave
from hermes_tasks.runtime.beat import HermesScheduler, SystemEntry, run_celery_beat
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.settings import Settings
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.wiring.base import Base, make_base
from hermes_tasks.wiring.start import begin, not_started


def system_entries(text: str) -> list[SystemEntry]:
    """The entries of ``beat/schedule.toml``.

    Raises:
        InvalidRequest: an entry that cannot be used; beat does not start with half a schedule.
    """
    try:
        entries = tomllib.loads(text).get("entries", {})
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"beat/schedule.toml cannot be read: {error}") from None
    return [_system_entry(name, entry) for name, entry in entries.items()]


def _system_entry(name: str, entry: Mapping[str, Any]) -> SystemEntry:
    every_s, task, queue = entry.get("every_s"), entry.get("task"), entry.get("queue")
    if not isinstance(every_s, int) or every_s < 1:
        raise InvalidRequest(f"beat/schedule.toml, entry {name}: every_s = {every_s!r}; give whole seconds, 1 or more")
    if not isinstance(task, str) or not task:
        raise InvalidRequest(f"beat/schedule.toml, entry {name}: task = {task!r}; give a task function's short name")
    if queue not in list(Queue):
        raise InvalidRequest(f"beat/schedule.toml, entry {name}: queue = {queue!r}; use one of {', '.join(Queue)}")
    return SystemEntry(name=name, every_s=every_s, task=task, queue=Queue(queue))


async def open_beat(settings: Settings) -> tuple[Base, Firing, Jobs]:
    """Compose the process and check its store."""
    base = make_base(settings)
    await base.check()
    return base, Firing(base.jobs, base.clock, one_shot_grace_s=settings.cron.one_shot_grace_s), base.jobs


def run_beat() -> NoReturn:
    """Run beat until it is told to stop; does not return."""
    settings = begin("beat")
    bridge = LoopBridge()
    bridge.start()
    try:
        base, firing, jobs = bridge.run(open_beat(settings))
        entries = system_entries(deploy_path("beat/schedule.toml").read_text(encoding="utf-8"))
    except HermesTasksError as error:
        not_started("beat", error)
    HermesScheduler.compose(bridge, firing.fire_due, jobs.claim_slot, entries, base.bell)
    run_celery_beat(base.app)
    bridge.run(base.aclose())
    bridge.stop()
    leave(0)
