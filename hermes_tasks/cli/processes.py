"""The processes of one installation: the one table that ``up`` and ``demo`` start."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hermes_tasks.cli.front_client import ME
from hermes_tasks.cli.probes import http_ok, listening
from hermes_tasks.deploy import deploy_path, launchers
from hermes_tasks.observe.ports import local_url, reachable
from hermes_tasks.settings import Settings
from hermes_tasks.store import embedded
from hermes_tasks.store.home_files import read_secret

#: ``-P``: the working directory is not on the import path, whatever lies in it.
_PYTHON: Final = (sys.executable, "-P")


@dataclass(frozen=True, slots=True)
class Listens:
    """Where a process listens, and the setting that changes it."""

    host: str
    port: int
    setting: str


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of the table.

    Attributes:
        name: short; its log is ``<name>.log``, or ``<name>-1.log`` … when there are several.
        command: program and arguments; it must stop on SIGTERM and die with its parent.
        count: how many; 0 = none.
        environment: added to the inherited one.
        stop_seconds: from SIGTERM to SIGKILL.
        depends: names of processes that must be ready before it starts; it is stopped before them.
        listens: checked to be free before anything starts.
        ready: answers whether it does its work; None = it runs.
        tells_ready: it calls :func:`hermes_tasks.observe.ready.tell_ready` when it does its work; asked for each of
            several by itself, in place of ``ready``.
    """

    name: str
    command: tuple[str, ...]
    count: int = 1
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    stop_seconds: int = 6
    depends: tuple[str, ...] = ()
    listens: Listens | None = None
    ready: Callable[[], bool] | None = None
    tells_ready: bool = False


def processes(settings: Settings) -> tuple[Process, ...]:
    """What ``up`` runs under these settings, in the order of starting."""
    services = tuple(process for process in (_store(settings), _model(settings)) if process is not None)
    needed = tuple(process.name for process in services)
    table = [*services, _front(settings, needed)]
    for launcher in launchers():
        chosen = settings.workers.of(launcher.role).processes
        table.append(
            Process(
                name=launcher.role,
                command=(*_PYTHON, str(launcher.path)),
                count=launcher.processes if chosen is None else chosen,
                depends=needed,
                tells_ready=True,
            )
        )
    beat = (*_PYTHON, str(deploy_path("beat/beat.py")))
    table.append(Process(name="beat", command=beat, depends=needed, tells_ready=True))
    if settings.flower.enabled:
        table.append(_flower(settings, needed))
    return tuple(process for process in table if process.count)


def addresses(settings: Settings) -> list[tuple[str, str]]:
    """What a person wants to know once it runs, as (what, where)."""
    front, flower = settings.front, settings.flower
    key = settings.paths.user_key(ME)
    found = [("front", f"{local_url(front.host, front.port)}  bearer key of user {ME} in {key}")]
    if flower.enabled:
        where = local_url(flower.host, flower.port)
        found.append(("flower", f"{where}  user {flower.user}, password in {settings.flower_password_file}"))
    model = settings.models["default"]
    found.append(
        ("model", "the demo model; set OPENAI_API_KEY, or models.default in the settings, to use a real one")
        if settings.demo_model
        else ("model", f"{model.model} at {model.base_url}")
    )
    found.append(("data", f"{settings.home}  logs in {settings.paths.logs}"))
    return found


def _store(settings: Settings) -> Process | None:
    if settings.store.url is not None:
        return None
    port = settings.store.port
    password = settings.paths.store_password
    return Process(
        name="store",
        command=(
            *_PYTHON, "-m", "hermes_tasks.store.embedded", "--home", str(settings.home), "--port", str(port),
            "--max-memory-mb", str(settings.store.max_memory_mb),
        ),
        stop_seconds=5,
        listens=Listens(embedded.HOST, port, "store.port"),
        ready=lambda: embedded.answers(port, read_secret(password)) and _ours(settings),
    )  # fmt: skip


def _ours(settings: Settings) -> bool:
    """Stamp the store with its home's id, or find that id there.

    Raises:
        Conflict: it has another one.
    """
    from hermes_tasks.store.address import store_url
    from hermes_tasks.store.client import connect
    from hermes_tasks.store.identity import check_identity

    async def check() -> None:
        client = connect(store_url(settings), connections=1)
        try:
            await check_identity(client, read_secret(settings.paths.id_file))
        finally:
            await client.aclose(close_connection_pool=True)

    asyncio.run(check())
    return True


def _model(settings: Settings) -> Process | None:
    if not settings.demo_model:
        return None
    port = settings.demo.port
    return Process(
        name="model",
        command=(*_PYTHON, "-m", "hermes_tasks.demo", "--port", str(port), "--delay", str(settings.demo.delay_s)),
        stop_seconds=3,
        listens=Listens("127.0.0.1", port, "demo.port"),
        ready=lambda: listening("127.0.0.1", port),
    )


def _front(settings: Settings, needed: tuple[str, ...]) -> Process:
    host, port = settings.front.host, settings.front.port
    return Process(
        name="front",
        command=(*_PYTHON, "-m", "hermes_tasks.cli.app", "front"),
        depends=needed,
        listens=Listens(host, port, "front.port"),
        ready=lambda: http_ok(reachable(host), port, "/healthz"),
    )


def _flower(settings: Settings, needed: tuple[str, ...]) -> Process:
    host, port = settings.flower.host, settings.flower.port
    return Process(
        name="flower",
        command=(*_PYTHON, "-m", "hermes_tasks.cli.app", "flower"),
        depends=needed,
        listens=Listens(host, port, "flower.port"),
        ready=lambda: listening(reachable(host), port),
    )
