"""The configuration of the supervisor, written from the table of processes."""

from __future__ import annotations

import resource
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_tasks.cli.processes import Process
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.home import Home

#: Descriptors for a worker with hundreds of model calls in flight.
_DESCRIPTORS: Final = 8192
#: 1 + 2 + 3 + 4 s of waiting; then ``Stack`` goes on starting it every 10 s.
START_RETRIES: Final = 4
_LOG: Final = ("stdout_logfile_maxbytes = 10MB", "stdout_logfile_backups = 3")


@dataclass(frozen=True, slots=True)
class Program:
    """One process as the supervisor knows it."""

    process: Process
    stage: int
    name: str

    @property
    def full_name(self) -> str:
        """Its name in the supervisor's interface."""
        return f"stage{self.stage}:{self.name}"


def programs(table: Sequence[Process]) -> list[Program]:
    """Every single process, with its stage: how many others must come before it."""
    stages = _stages(table)
    return [
        Program(process, stages[process.name], name)
        for process in table
        for name in (
            [process.name] if process.count == 1 else [f"{process.name}-{n + 1}" for n in range(process.count)]
        )
    ]


def _names(process: Process) -> list[str]:
    if process.count == 1:
        return [process.name]
    return [f"{process.name}-{number}" for number in range(1, process.count + 1)]


def render(home: Home, socket: Path, table: Sequence[Process]) -> str:
    """The text of the configuration file.

    Raises:
        InvalidRequest: a path or a command cannot be written into such a file.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    sections = [
        [
            "[unix_http_server]",
            f"file = {_value(socket)}",
            "chmod = 0700",
        ],
        [
            "[supervisord]",
            "nodaemon = true",
            f"logfile = {_value(home.logs / 'supervisor.log')}",
            "logfile_maxbytes = 10MB",
            "logfile_backups = 1",
            f"pidfile = {_value(home.run / 'supervisord.pid')}",
            "umask = 077",
            f"minfds = {limit}",
            f"childlogdir = {_value(home.logs)}",
        ],
        [
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        ],
    ]
    stages = _stages(table)
    sections += [_program(home, process) for process in table]
    # A group is stopped at once and as one, the last group first: what depends on the store goes before the store.
    sections += [
        [
            f"[group:stage{stage}]",
            f"programs = {','.join(process.name for process in table if stages[process.name] == stage)}",
            f"priority = {10 * (stage + 1)}",
        ]
        for stage in sorted(set(stages.values()))
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _program(home: Home, process: Process) -> list[str]:
    several = process.count > 1
    name = f"{process.name}-%(process_num)d" if several else process.name
    command = process.command
    if process.environment:
        # The file has a syntax of its own for this, which cannot carry every value.
        command = ("/usr/bin/env", *(f"{key}={value}" for key, value in process.environment.items()), *command)
    return [
        f"[program:{process.name}]",
        f"command = {_value(shlex.join(command))}",
        f"process_name = {name}",
        f"numprocs = {process.count}",
        "numprocs_start = 1",
        "autostart = false",  # in the order of `depends`, by Stack
        "autorestart = true",
        "startsecs = 1",
        f"startretries = {START_RETRIES}",
        f"stopwaitsecs = {process.stop_seconds}",
        "killasgroup = true",
        "redirect_stderr = true",
        f"stdout_logfile = {_value(home.logs)}/{name}.log",
        *_LOG,
    ]


def _stages(table: Sequence[Process]) -> dict[str, int]:
    by_name = {process.name: process for process in table}

    def stage(process: Process, above: tuple[str, ...]) -> int:
        if process.name in above or (missing := set(process.depends) - set(by_name)):
            wrong = "itself" if process.name in above else ", ".join(sorted(missing))
            raise InvalidRequest(f"process {process.name} depends on {wrong}; fix the table of processes")
        deeper = [stage(by_name[name], (*above, process.name)) + 1 for name in process.depends]
        return max(deeper, default=0)

    return {process.name: stage(process, ()) for process in table}


def _value(value: object) -> str:
    """A value as the supervisor reads it back; what its syntax cannot carry is refused."""
    text = str(value)
    if not text.isprintable() or " ;" in text or " #" in text or text != text.strip():
        raise InvalidRequest(f"the supervisor cannot use {text!r}: leave out control characters, ' ;' and ' #'")
    return text.replace("%", "%%")
