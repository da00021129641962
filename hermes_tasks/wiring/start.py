"""How every process begins: tied to its starter, settings read once, logging set up; and how it says that it cannot."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from hermes_tasks.contracts.errors import HermesTasksError, InvalidRequest
from hermes_tasks.contracts.exits import exit_code
from hermes_tasks.observe.leaving import leave
from hermes_tasks.observe.logging import configure_logging, get_logger
from hermes_tasks.observe.parent import die_with_parent
from hermes_tasks.settings import Settings, load

#: A doorbell crosses three threads (Celery's loop, a slot, the event loop). With Python's 5 ms each hand-over may wait
#: that long for a thread that computes.
SWITCH_S: Final = 0.0005
_log = get_logger(__name__)


def begin(process: str) -> Settings:
    """The settings of this process. Call it once, first thing.

    Args:
        process: who speaks in the log: ``beat``, ``worker:memory`` …

    Raises:
        SystemExit: the settings cannot be used (each fault stands on stderr, one line each), or our starter is gone.
    """
    die_with_parent()
    try:
        settings = load()
    except InvalidRequest as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"{process} not started: {line}\n")
        raise SystemExit(exit_code(error)) from None
    configure_logging(settings.log, process)
    sys.setswitchinterval(SWITCH_S)
    return settings


def not_started(process: str, error: HermesTasksError) -> NoReturn:
    """Say in one line why this process cannot begin, and end it with the exit code of the error's class."""
    _log.error(f"{process} not started", reason=str(error))
    leave(exit_code(error))
