"""A stack of processes under one supervisor: start in order, wait until ready, keep alive, stop without a trace."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hermes_tasks.cli.home_lock import take_home
from hermes_tasks.cli.processes import Process
from hermes_tasks.cli.supervisor_conf import Program, programs
from hermes_tasks.cli.supervisor_process import SupervisorProcess
from hermes_tasks.cli.supervisor_rpc import State
from hermes_tasks.contracts.errors import Conflict, Retryable
from hermes_tasks.observe.ports import check_port
from hermes_tasks.observe.ready import READY_VARIABLE, told_ready
from hermes_tasks.settings import Settings
from hermes_tasks.store.home_files import make_home

_POLL_S: Final = 0.1
_RETRY_S: Final = 10.0
#: Starts of one process, before it was ever ready, after which waiting longer is pointless.
_START_ATTEMPTS: Final = 2


class Stack:
    """The processes of one home, running together.

    Args:
        settings: names the home.
        table: what to run.
        environ: the environment of the processes; ours when None.
        ready_s: how long all of them together may take to be ready.
        stop_s: how long all of them together may take to stop; then they are killed.

    Raises:
        InvalidRequest: the table cannot be ordered.

    Use it from the main thread: the processes end with the thread that started them.
    """

    def __init__(
        self,
        settings: Settings,
        table: Sequence[Process],
        *,
        environ: Mapping[str, str] | None = None,
        ready_s: float = 120.0,
        stop_s: float = 10.0,
    ) -> None:
        self._settings = settings
        self._table = tuple(table)
        self._programs = programs(self._table)
        self._environ = dict(os.environ if environ is None else environ)
        self._environ["HERMES_TASKS_HOME"] = str(settings.home)
        self._ready_dir = settings.paths.run / "ready"
        self._environ[READY_VARIABLE] = str(self._ready_dir)
        self._ready_s = ready_s
        self._stop_s = stop_s
        self._supervisor: SupervisorProcess | None = None
        self._given_up: dict[str, float] = {}
        self._running: dict[str, int] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when all of it is ready; on any error nothing is left running.

        Raises:
            InvalidRequest: the home cannot be used.
            Conflict: the home is in use, or a port is taken; nothing was started.
            Retryable: a process does not get ready; the text has the last line of its log.
        """
        home = make_home(self._settings.home)
        lock = take_home(home.run / "up.lock")
        try:
            self._check_ports()
            shutil.rmtree(self._ready_dir, ignore_errors=True)
            self._ready_dir.mkdir(mode=0o700)
            self._supervisor = SupervisorProcess(home, self._table, self._environ, lock)
        finally:
            os.close(lock)  # the supervisor has it now
        try:
            self._wait_ready(self._supervisor)
        except BaseException:
            self.stop()
            raise

    def states(self) -> dict[str, State]:
        """Every process by its name.

        Raises:
            Retryable: the supervisor is gone or does not answer.
        """
        states = self._supervisor.states() if self._supervisor is not None else None
        if states is None:
            raise Retryable("the supervisor does not answer; stop and start again")
        return states

    def tend(self) -> list[str]:
        """Look after the processes once; call it about once a second. Returns what changed, one line each.

        The supervisor restarts what ends; what it gave up is started again here, every 10 s, for ever.

        Raises:
            Retryable: the supervisor is gone.
        """
        notes: list[str] = []
        supervisor = self._supervisor
        # One that is slow to answer once (a machine under load) is no reason to stop everything.
        states = (supervisor.states() if supervisor is not None else None) or {}
        for program in [program for program in self._programs if program.name in states]:
            state = states[program.name]
            if state.state == "RUNNING" and self._running.get(program.name) != state.pid:
                if program.name in self._running:
                    notes.append(f"{program.name} ended and was started again (pid {state.pid})")
                self._running[program.name] = state.pid
            if state.state != "FATAL":
                self._given_up.pop(program.name, None)
            elif program.name not in self._given_up:
                self._given_up[program.name] = time.monotonic()
                notes.append(f"{program.name} keeps ending: {self._last_line(program)} (see {self._log(program)})")
            elif time.monotonic() - self._given_up[program.name] >= _RETRY_S and supervisor is not None:
                supervisor.start_program(program.full_name)
        return notes

    def stop(self) -> list[str]:
        """Stop everything, what depends on others first; kill what still runs after ``stop_s``.

        Returns:
            The commands that had to be killed; empty when all ended by themselves. A second call does nothing.
        """
        supervisor, self._supervisor = self._supervisor, None
        return supervisor.stop(self._stop_s) if supervisor is not None else []

    def _check_ports(self) -> None:
        seen: dict[int, str] = {}
        for listens in (process.listens for process in self._table if process.listens is not None):
            if listens.port in seen:
                both = f"{seen[listens.port]} and {listens.setting}"
                raise Conflict(f"{both} are both {listens.port}; change one", field=listens.setting)
            seen[listens.port] = listens.setting
            check_port(listens.host, listens.port, listens.setting)

    def _wait_ready(self, supervisor: SupervisorProcess) -> None:
        """Start each program when what it depends on is ready, until all are."""
        deadline = time.monotonic() + self._ready_s
        waiting = list(self._programs)
        starts: dict[str, set[int]] = {program.name: set() for program in waiting}
        asked: set[str] = set()
        while True:
            states = supervisor.states() or {}
            for program in [program for program in waiting if program.name in states]:
                unready = {other.process.name for other in waiting}
                if program.name not in asked and not unready.intersection(program.process.depends):
                    supervisor.start_program(program.full_name)
                    asked.add(program.name)
                self._check_start(program, states[program.name], starts[program.name])
                if self._is_ready(program, states[program.name]):
                    waiting.remove(program)
            if not waiting:
                return
            if time.monotonic() > deadline:
                names = ", ".join(f"{program.name} ({self._last_line(program)})" for program in waiting[:3])
                logs = self._settings.paths.logs
                raise Retryable(f"not ready after {self._ready_s:.0f} s: {names}; see the logs in {logs}")
            time.sleep(_POLL_S)

    def _check_start(self, program: Program, state: State, starts: set[int]) -> None:
        if state.started:
            starts.add(state.started)
        if state.state == "FATAL" or len(starts) > _START_ATTEMPTS:
            log = self._log(program)
            raise Retryable(f"{program.name} ends again and again: {self._last_line(program)} (see {log})")

    def _is_ready(self, program: Program, state: State) -> bool:
        process = program.process
        if state.state not in ("STARTING", "RUNNING"):
            return False
        if process.tells_ready:
            return told_ready(self._ready_dir, state.pid)
        return process.ready() if process.ready is not None else state.state == "RUNNING"

    def _log(self, program: Program) -> Path:
        return self._settings.paths.logs / f"{program.name}.log"

    def _last_line(self, program: Program) -> str:
        try:
            lines = self._log(program).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")
