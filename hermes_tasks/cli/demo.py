"""``hermes-tasks demo``: the whole system on free ports in a temporary home, one conversation, and its own verdict."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hermes_tasks.cli.errors import ExitCode, told_in_one_line
from hermes_tasks.cli.interrupts import stop_on_signals

if TYPE_CHECKING:
    from hermes_tasks.cli.supervise import Stack

#: Seconds between two steps of a demo child, so that one can watch them work side by side.
_PACE_S: Final = 0.8


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the system running at the end, until Ctrl-C.")] = False,
) -> None:
    """Start everything, play a conversation through the real HTTP API, and check what happened.

    Needs no key and no server: the store, the model (a scripted one) and all processes are started in a temporary
    home and removed again. Exits 0 when every check holds.

    Examples:
      hermes-tasks demo

      hermes-tasks demo --keep
    """
    from hermes_tasks.cli.demo_show import Show
    from hermes_tasks.cli.demo_story import play, verdict
    from hermes_tasks.cli.processes import addresses, processes
    from hermes_tasks.cli.supervise import Stack
    from hermes_tasks.settings import load

    stop_on_signals()
    began = time.monotonic()
    show = Show()
    with tempfile.TemporaryDirectory(prefix="hermes-tasks-demo-") as home, told_in_one_line():
        environment = demo_environment(Path(home))
        settings = load(environ=environment)
        show.title(
            "Hermes Tasks demo", "store, front, workers, beat and Flower are starting; the model is a scripted one"
        )
        with Stack(settings, processes(settings), environ=environment, ready_s=120) as stack:
            show.say(f"all processes are up after {time.monotonic() - began:.0f} s")
            facts = asyncio.run(play(settings, show))
            show.results(facts, addresses(settings))
            failures = verdict(facts)
            show.verdict(failures, time.monotonic() - began)
            if keep and not failures:
                _keep(stack)
    raise SystemExit(ExitCode.FAILED if failures else ExitCode.OK)


def demo_environment(home: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every process of the demo: its own home and ports, and no model key of the user's."""
    from hermes_tasks.observe.ports import free_port

    ours = ("HERMES_TASKS_", "OPENAI_", "FLOWER_")
    kept = {name: value for name, value in (environ or os.environ).items() if not name.startswith(ours)}
    ports = {name: str(free_port()) for name in ("STORE", "FRONT", "FLOWER", "DEMO")}
    return {
        **kept,
        "HERMES_TASKS_HOME": str(home),
        "HERMES_TASKS_DEMO_MODEL": "true",
        "HERMES_TASKS_DEMO__DELAY_S": str(_PACE_S),
        **{f"HERMES_TASKS_{name}__PORT": port for name, port in ports.items()},
    }


def _keep(stack: Stack) -> None:
    print("Ctrl-C stops everything", flush=True)
    try:
        while True:
            for note in stack.tend():
                print(note, flush=True)
            time.sleep(1)
    except KeyboardInterrupt:
        print("stopping …", flush=True)
