"""The operators' page: Flower as it ships, behind basic auth, not persistent, with ids only."""

from __future__ import annotations

import os
from typing import Final, NoReturn

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.observe.leaving import leave
from hermes_tasks.store.home_files import read_secret
from hermes_tasks.wiring.base import make_base
from hermes_tasks.wiring.start import begin, not_started

_CONNECTIONS: Final = 64


def run_flower() -> NoReturn:
    """Run Flower until it is told to stop; does not return."""
    settings = begin("flower")
    chosen = settings.flower
    try:
        password = read_secret(settings.flower_password_file)
        app = make_base(settings).app
    except HermesTasksError as error:
        not_started("Flower", error)
    # Flower asks many workers at once, each question holding one connection while it needs a second: with the few that
    # doorbells need, all of them waited for ever and the page stayed empty.
    app.conf.broker_pool_limit = _CONNECTIONS
    # By environment, not by argument: arguments are readable by every user of the machine.
    os.environ["FLOWER_BASIC_AUTH"] = f"{chosen.user}:{password}"
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    try:
        app.start(
            argv=[
                "flower", f"--address={chosen.host}", f"--port={chosen.port}", f"--max-tasks={chosen.max_tasks}",
                "--persistent=false", "--tasks-columns=name,uuid,state,args,received,started,runtime,worker",
            ]
        )  # fmt: skip
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else end.code is not None)
    leave(0)
