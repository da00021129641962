"""How every process begins: tied to its starter, settings read once, logging set up."""

from __future__ import annotations

import sys
from typing import Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.observe.logging import configure_logging
from hermes_tasks.observe.parent import die_with_parent
from hermes_tasks.settings import Settings, load

#: A doorbell crosses three threads (Celery's loop, a slot, the event loop). With Python's 5 ms each hand-over may wait
#: that long for a thread that computes.
SWITCH_S: Final = 0.0005
#: As the command line says it: bad input.
_USAGE: Final = 2


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
        raise SystemExit(_USAGE) from None
    configure_logging(settings.log, process)
    sys.setswitchinterval(SWITCH_S)
    return settings
