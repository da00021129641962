"""The operators' page: Flower as it ships, behind basic auth, not persistent, with ids only."""

from __future__ import annotations

import os
import sys
from typing import Final

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.home_files import read_secret
from hermes_tasks.wiring.base import make_base
from hermes_tasks.wiring.start import begin

_log = get_logger(__name__)
_CONNECTIONS: Final = 64


def run_flower() -> None:
    """Run Flower until it is told to stop."""
    settings = begin("flower")
    chosen = settings.flower
    try:
        password = read_secret(settings.flower_password_file)
        app = make_base(settings).app
    except HermesTasksError as error:
        _log.error("Flower not started", reason=str(error))
        sys.exit(1)
    # Flower asks many workers at once, each question holding one connection while it needs a second: with the few that
    # doorbells need, all of them waited for ever and the page stayed empty.
    app.conf.broker_pool_limit = _CONNECTIONS
    # By environment, not by argument: arguments are readable by every user of the machine.
    os.environ["FLOWER_BASIC_AUTH"] = f"{chosen.user}:{password}"
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    app.start(
        argv=[
            "flower", f"--address={chosen.host}", f"--port={chosen.port}", f"--max-tasks={chosen.max_tasks}",
            "--persistent=false", "--tasks-columns=name,uuid,state,args,received,started,runtime,worker",
        ]
    )  # fmt: skip
