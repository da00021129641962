"""Where the launchers, the schedule and the configuration files lie: they are run or read by path, never imported.

In a checkout they are the folders ``workers/``, ``beat/`` and ``config/``; the wheel carries the same files as
package data. Whoever needs one asks here, and so works in both.
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

from hermes_tasks.contracts.errors import InvalidRequest

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Launcher:
    """One worker role as its launcher file describes it.

    Attributes:
        role: the name of the role and of the file.
        path: the file to run: ``python -P <path>``.
        slots: runs or drains one process has in hand at a time.
        processes: how many processes of the role one machine starts.
    """

    role: str
    path: Path
    slots: int
    processes: int


def deploy_path(name: str) -> Path:
    """The path of a deploy file or folder: ``deploy_path("config/valkey.conf")``.

    Raises:
        InvalidRequest: there is none of that name.
    """
    installed = _PACKAGE / "_deploy"
    root = installed if installed.is_dir() else _PACKAGE.parent
    path = root / name
    if name.split("/", 1)[0] not in ("workers", "beat", "config") or not path.exists():
        raise InvalidRequest(f"no deploy file {name!r}: use a path that exists under workers/, beat/ or config/")
    return path


def launcher(role: str) -> Launcher:
    """What the launcher of ``role`` says about itself; the file is read, the worker is not started.

    Raises:
        InvalidRequest: there is no such role.
    """
    path = deploy_path(f"workers/{role}.py")
    values = runpy.run_path(str(path), run_name=f"launcher of {role}")
    return Launcher(role=role, path=path, slots=values["SLOTS"], processes=values["PROCESSES"])


def launchers() -> tuple[Launcher, ...]:
    """All worker roles that have a launcher, by name."""
    return tuple(launcher(path.stem) for path in sorted(deploy_path("workers").glob("*.py")))
