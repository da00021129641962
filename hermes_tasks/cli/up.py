"""``hermes-tasks up``: the whole system on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hermes_tasks.cli.errors import ExitCode, told_in_one_line
from hermes_tasks.cli.interrupts import stop_on_signals
from hermes_tasks.cli.options import ConfigOption, HomeOption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes_tasks.cli.supervise import Stack
    from hermes_tasks.settings import Settings

_LOOK_S = 1.0


def up(
    home: HomeOption = None,
    config: ConfigOption = None,
    ready_s: Annotated[int, typer.Option("--ready-s", min=1, help="Seconds until all processes must be ready.")] = 120,
) -> None:
    """Start store, front, workers, beat and Flower, print where they are, and stop them all on Ctrl-C.

    Without a model key the built-in demo model answers. What ends is restarted by itself.

    Examples:
      hermes-tasks up

      OPENAI_API_KEY=sk-… hermes-tasks up --home ./home
    """
    from hermes_tasks.cli.front_client import ME
    from hermes_tasks.cli.processes import addresses, processes
    from hermes_tasks.cli.supervise import Stack
    from hermes_tasks.settings import load
    from hermes_tasks.settings.search import WITH_KEY
    from hermes_tasks.wiring.admin import ensure_user

    with told_in_one_line():
        settings = load(home, config)
        if config is not None:
            os.environ["HERMES_TASKS_CONFIG"] = str(config.expanduser().absolute())
        for model in settings.models.named.values():
            model.key()  # a key file that cannot be read is told now, not at the first message
        for service in set(WITH_KEY).intersection(settings.tools.search_services):
            settings.tools.search_key(service)
        for warning in check_external_store(settings):
            print(f"warning: {warning}", file=sys.stderr)
        stack = Stack(settings, processes(settings), ready_s=ready_s)
        code = serve(stack, addresses(settings), lambda: asyncio.run(ensure_user(settings, ME)))
    raise SystemExit(code)


def serve(stack: Stack, addresses: Sequence[tuple[str, str]], prepare: Callable[[], object] = int) -> ExitCode:
    """Run the stack until SIGINT, SIGTERM or SIGHUP; ``prepare`` and print ``addresses`` when it is ready.

    Raises:
        InvalidRequest, Retryable: it cannot start, or the supervisor died; nothing is left running.
    """
    stop_on_signals()
    try:
        _look_after(stack, addresses, prepare)
    except KeyboardInterrupt:
        print("stopping …", flush=True)
    finally:
        killed = stack.stop()
        for command in killed:
            print(f"hermes-tasks: had to be killed: {command}", file=sys.stderr)
    return ExitCode.FAILED if killed else ExitCode.OK


def _look_after(stack: Stack, addresses: Sequence[tuple[str, str]], prepare: Callable[[], object]) -> NoReturn:
    print("starting …", flush=True)
    stack.start()
    prepare()
    for what, where in addresses:
        print(f"{what:<8}{where}")
    print("Ctrl-C stops everything", flush=True)
    while True:
        time.sleep(_LOOK_S)
        for note in stack.tend():
            print(note, flush=True)


def check_external_store(settings: Settings) -> list[str]:
    """Warnings about a store that is not ours to start; none for the embedded one.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    if settings.store.url is None:
        return []
    from hermes_tasks.store.address import store_url
    from hermes_tasks.store.client import Store

    async def check() -> list[str]:
        store = Store(store_url(settings))
        try:
            return await store.check()
        finally:
            await store.aclose()

    return asyncio.run(check())
