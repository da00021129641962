"""The beat process: Celery's beat with our scheduler class."""

from __future__ import annotations

import sys
import tomllib

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.cron.firing import Firing
from hermes_tasks.deploy import deploy_path
from hermes_tasks.observe.logging import configure_logging, get_logger
from hermes_tasks.observe.parent import die_with_parent
from hermes_tasks.runtime.beat import HermesScheduler, SystemEntry, run_celery_beat
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.settings import Settings, load
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.wiring.base import Base, make_base

_log = get_logger(__name__)


def system_entries(text: str) -> list[SystemEntry]:
    """The entries of ``beat/schedule.toml``."""
    entries = tomllib.loads(text).get("entries", {})
    return [
        SystemEntry(name=name, every_s=int(entry["every_s"]), task=str(entry["task"]), queue=str(entry["queue"]))
        for name, entry in entries.items()
    ]


async def open_beat(settings: Settings) -> tuple[Base, Firing, Jobs]:
    """Compose the process and check its store."""
    base = make_base(settings)
    await base.check()
    return base, Firing(base.jobs, base.clock, one_shot_grace_s=settings.cron.one_shot_grace_s), base.jobs


def run_beat() -> None:
    """Run beat until it is told to stop; does not return."""
    die_with_parent()
    settings = load()
    configure_logging(settings.log, "beat")
    bridge = LoopBridge()
    bridge.start()
    try:
        base, firing, jobs = bridge.run(open_beat(settings))
        entries = system_entries(deploy_path("beat/schedule.toml").read_text(encoding="utf-8"))
    except HermesTasksError as error:
        _log.error("beat not started", reason=str(error))
        sys.exit(1)
    HermesScheduler.compose(bridge, firing.fire_due, jobs.claim_slot, entries)
    run_celery_beat(base.app)
    bridge.run(base.aclose())
    bridge.stop()
