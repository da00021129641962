"""Real processes for crash tests: an embedded store, a model server with a request log, launchers run by path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hermes_tasks.observe.ports import free_port
from hermes_tasks.observe.ready import READY_VARIABLE, told_ready
from hermes_tasks.settings import Settings, load
from hermes_tasks.testing.server import EmbeddedServer

ROOT = Path(__file__).parents[2]


def wait_until(what: str, condition: Callable[[], object], deadline_s: float = 30.0, pause_s: float = 0.02) -> float:
    """Wait for a condition; returns the seconds it took, fails naming ``what`` when it does not come in time."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > deadline_s:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(pause_s)
    return time.monotonic() - began


class Fleet:
    """The processes of one installation, started and killed one by one.

    Args:
        root: the home; logs of every process go to ``<root>/logs``.
        model_port: where the test's model server listens.
        extra: more environment variables (settings).
    """

    def __init__(
        self, root: Path, server: EmbeddedServer, model_port: int, extra: Mapping[str, str] | None = None
    ) -> None:
        self.root, self.server = root, server
        self.front_port = free_port()
        self._ready = root / "ready"
        self._ready.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HERMES_TASKS_", "OPENAI_"))},
            "HERMES_TASKS_HOME": str(server.paths.home.root),
            "HERMES_TASKS_STORE__PORT": str(server.port),
            "HERMES_TASKS_DEMO_MODEL": "true",
            "HERMES_TASKS_DEMO__PORT": str(model_port),
            "HERMES_TASKS_FRONT__PORT": str(self.front_port),
            "HERMES_TASKS_LOG__FORMAT": "json",
            READY_VARIABLE: str(self._ready),
            **(extra or {}),
        }
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for group in self.processes.values():
            for process in group:
                with_signal(process, signal.SIGCONT)
                with_signal(process, signal.SIGKILL)
                process.wait()

    @property
    def settings(self) -> Settings:
        """What every process of the fleet reads."""
        return load(environ=self.environment)

    def start(
        self, role: str, count: int = 1, *, command: Sequence[str] | None = None
    ) -> list[subprocess.Popen[bytes]]:
        """Start more processes of a role (a launcher's name, ``beat`` or ``front``).

        Args:
            command: what to start in place of the role's own launcher, run by this interpreter.
        """
        if command is not None:
            command = [sys.executable, "-P", *command]
        elif role == "front":
            command = [sys.executable, "-P", "-m", "hermes_tasks.cli.app", "front"]
        elif role == "beat":
            command = [sys.executable, "-P", str(ROOT / "beat" / "beat.py")]
        else:
            command = [sys.executable, "-P", str(ROOT / "workers" / f"{role}.py")]
        started = []
        for _ in range(count):
            self._count += 1
            log = (self.root / f"{role}-{self._count}.log").open("ab")
            started.append(
                subprocess.Popen(
                    command, env=self.environment, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )
            log.close()
        self.processes.setdefault(role, []).extend(started)
        return started

    def is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether this worker takes, or took, doorbells by its own word; a front never says so."""
        return told_ready(self._ready, process.pid)

    def ready(self, role: str) -> bool:
        """Whether every living worker of a role takes doorbells."""
        living = self.alive(role)
        return bool(living) and all(map(self.is_ready, living))

    def alive(self, role: str) -> list[subprocess.Popen[bytes]]:
        """The role's processes that still run."""
        return [process for process in self.processes.get(role, []) if process.poll() is None]

    def logs(self) -> str:
        """The last lines of every process, for a failing test's message."""
        logs = sorted(self.root.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in logs)


def with_signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    if process.poll() is None:
        process.send_signal(number)


@contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGSTOP for the length of the block."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
