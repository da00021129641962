"""The command line as real processes: one command, or a whole ``up``, and what is left of it afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from hermes_tasks.observe.ports import free_port

#: The command of this checkout.
PROGRAM = (sys.executable, "-m", "hermes_tasks.cli.app")
CTRL_C_SAID = "Ctrl-C stops everything"


def clean_environment() -> dict[str, str]:
    """This process's environment without settings and keys of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "OPENAI_", "HT_"))}


def free_ports() -> dict[str, str]:
    """Settings that put everything ``up`` starts on free ports."""
    return {f"HERMES_TASKS_{name}__PORT": str(free_port()) for name in ("STORE", "FRONT", "FLOWER", "DEMO")}


def run(
    *arguments: str | Path | bytes, program: Sequence[str] = PROGRAM, given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """One command from start to end; ``given`` is its standard input."""
    return subprocess.run(
        [*program, *(part if isinstance(part, bytes) else str(part) for part in arguments)],
        env=clean_environment() | variables, input=given, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line it said, without the program's name."""
    (line,) = done.stderr.splitlines()
    assert line.startswith("hermes-tasks: ")
    return line.removeprefix("hermes-tasks: ")


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command, or of a process that logs."""
    (line,) = done.stderr.splitlines()
    return str(json.loads(line)["reason"]) if line.startswith("{") else line


def at_work(home: Path) -> list[str]:
    """Commands of the processes that belong to a home; empty when nothing of it was left running."""
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if process.environ().get("HERMES_TASKS_HOME") == str(home) or str(home) in command:
                found.append(" ".join(command))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


class Up:
    """A running ``hermes-tasks up``.

    Args:
        home: its home, made by it.
        program: the command to run.
        cwd: where it is started.
        variables: settings; ports that they do not name are free ones.

    What it said on stderr stands in ``errors``, a file beside the home.
    """

    def __init__(
        self, home: Path, variables: Mapping[str, str] | None = None, *, program: Sequence[str] = PROGRAM,
        cwd: Path | None = None,
    ) -> None:  # fmt: skip
        self.home = home
        self.variables = free_ports() | dict(variables or {})
        self.errors = home.with_name(f"{home.name}.err")
        self.addresses: dict[str, str] = {}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*program, "up", "--home", str(home)], env=clean_environment() | self.variables, cwd=cwd,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        """Return when it has printed where everything is."""
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.strip() == CTRL_C_SAID:
                return self
            if line.strip() != "starting …":
                what, _, where = line.strip().partition(" ")
                self.addresses[what] = where.strip()
        self.process.wait()
        raise AssertionError(f"up ended (exit code {self.process.returncode}): {said} {self.errors.read_text()}")

    def __exit__(self, *_: object) -> None:
        self.interrupt()

    @property
    def url(self) -> str:
        """Where it says that the front is."""
        return self.addresses["front"].split()[0]

    @property
    def key(self) -> str:
        """The key in the file that it names."""
        (path,) = re.findall(r"bearer key of user me in (.+)", self.addresses["front"])
        return Path(path).read_text(encoding="ascii").strip()

    def family(self) -> list[psutil.Process]:
        """All processes below it."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def run(self, *arguments: str | Path | bytes, given: str = "") -> subprocess.CompletedProcess[str]:
        """One command on its home."""
        return run(*arguments, "--home", self.home, given=given, **self.variables)

    def json(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def interrupt(self) -> tuple[int, float, str]:
        """Ctrl-C: exit code, seconds until it ended, and what it said after the addresses. Once is enough."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        said = self.process.stdout.read() if not self.process.stdout.closed else ""
        code = self.process.wait(60)
        took = time.monotonic() - began
        self.process.stdout.close()
        return code, took, said
