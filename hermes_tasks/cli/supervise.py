"""A stack of processes under one supervisor: start in order, wait until ready, keep alive, stop without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hermes_tasks.cli.home_lock import take_home
from hermes_tasks.cli.offspring import Offspring
from hermes_tasks.cli.processes import Process
from hermes_tasks.cli.supervisor_conf import Program, programs, render
from hermes_tasks.cli.supervisor_rpc import State, Supervisor
from hermes_tasks.contracts.errors import Conflict, Retryable
from hermes_tasks.observe.parent import PARENT_VARIABLE
from hermes_tasks.observe.ports import check_port
from hermes_tasks.settings import Settings
from hermes_tasks.store.home_files import make_home, write_private

_POLL_S: Final = 0.1
_RETRY_S: Final = 10.0
#: Starts of one process, before it was ever ready, after which waiting longer is pointless.
_START_ATTEMPTS: Final = 3
#: The length of a Unix socket's path, less what the supervisor appends to it while it makes the socket.
_SOCKET_PATH: Final = 90


class Stack:
    """The processes of one home, running together.

    Args:
        settings: names the home.
        table: what to run.
        environ: the environment of the processes; ours when None.
        ready_s: how long all of them together may take to be ready.
        stop_s: how long all of them together may take to stop; then they are killed.

    Use it from the main thread: the processes end with the thread that started them.
    """

    def __init__(
        self,
        settings: Settings,
        table: Sequence[Process],
        *,
        environ: Mapping[str, str] | None = None,
        ready_s: float = 60.0,
        stop_s: float = 10.0,
    ) -> None:
        self._settings = settings
        self._table = tuple(table)
        self._environ = dict(os.environ if environ is None else environ)
        self._ready_s = ready_s
        self._stop_s = stop_s
        self._programs = programs(self._table)
        self._process: subprocess.Popen[bytes] | None = None
        self._offspring = Offspring()
        self._short_dir: Path | None = None
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
            self._start_supervisor(lock)
        finally:
            os.close(lock)  # the supervisor has it now
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    def states(self) -> dict[str, State]:
        """Every process by its name.

        Raises:
            Retryable: the supervisor is gone or does not answer.
        """
        if self._process is None or self._process.poll() is not None:
            raise Retryable(f"the supervisor has ended; see {self._settings.paths.logs / 'supervisor.log'}")
        found = self._rpc.states()
        if found is None:
            raise Retryable("the supervisor does not answer; stop and start again")
        self._offspring.look(self._process.pid)
        return {state.name: state for state in found}

    def tend(self) -> list[str]:
        """Look after the processes once; call it about once a second. Returns what changed, one line each.

        The supervisor restarts what ends; what it gave up is started again here, every 10 s, for ever.

        Raises:
            Retryable: the supervisor is gone.
        """
        notes = []
        states = self.states()
        for program in self._programs:
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
            elif time.monotonic() - self._given_up[program.name] >= _RETRY_S:
                self._rpc.start(program.full_name)
        return notes

    def stop(self) -> list[str]:
        """Stop everything, what depends on others first; kill what still runs after ``stop_s``.

        Returns:
            The commands that had to be killed; empty when all ended by themselves. A second call does nothing.
        """
        process, self._process = self._process, None
        if process is None:
            return []
        deadline = time.monotonic() + self._stop_s
        self._offspring.look(process.pid)
        process.terminate()
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            if ended and not self._offspring.alive():
                break
            if not ended:
                self._offspring.look(process.pid)
            time.sleep(_POLL_S)
        killed = self._offspring.kill()
        process.kill()
        process.wait()
        if self._short_dir is not None:
            shutil.rmtree(self._short_dir, ignore_errors=True)
        return killed

    def _check_ports(self) -> None:
        seen: dict[int, str] = {}
        for process in self._table:
            if process.listens is None:
                continue
            listens = process.listens
            if listens.port in seen:
                raise Conflict(
                    f"{seen[listens.port]} and {listens.setting} are both {listens.port}; change one",
                    field=listens.setting,
                )
            seen[listens.port] = listens.setting
            check_port(listens.host, listens.port, listens.setting)

    def _start_supervisor(self, lock: int) -> None:
        home = self._settings.paths
        socket = home.run / "supervisor.sock"
        if len(str(socket)) > _SOCKET_PATH:
            self._short_dir = Path(tempfile.mkdtemp(prefix="hermes-tasks-"))
            socket = self._short_dir / "supervisor.sock"
        configuration = home.run / "supervisord.conf"
        write_private(configuration, render(home, socket, self._table))
        environment = {**self._environ, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"}
        environment["HERMES_TASKS_HOME"] = str(self._settings.home)
        with (home.run / "supervisord.err").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hermes_tasks.cli.supervisor_main", str(configuration), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
                pass_fds=(lock,),
                # Ctrl-C on the terminal is ours to handle: the supervisor is told by us, once.
                start_new_session=True,
            )
        self._rpc = Supervisor(socket)

    def _wait_ready(self) -> None:
        """Start each program when what it depends on is ready, until all are."""
        deadline = time.monotonic() + self._ready_s
        waiting = list(self._programs)
        starts: dict[str, set[int]] = {program.name: set() for program in waiting}
        asked: set[str] = set()
        while waiting:
            states = self._states_or_none() or {}
            for program in [program for program in waiting if program.name in states]:
                state = states[program.name]
                depends_on = {other.process.name for other in waiting}
                if program.name not in asked and not depends_on.intersection(program.process.depends):
                    self._rpc.start(program.full_name)
                    asked.add(program.name)
                if state.started:
                    starts[program.name].add(state.started)
                if state.state == "FATAL" or len(starts[program.name]) > _START_ATTEMPTS:
                    raise Retryable(
                        f"{program.name} ends again and again: {self._last_line(program)} (see {self._log(program)})"
                    )
                if self._is_ready(program, state):
                    waiting.remove(program)
            if waiting:
                if time.monotonic() > deadline:
                    names = ", ".join(program.name for program in waiting)
                    raise Retryable(
                        f"not ready after {self._ready_s:.0f} s: {names}; see the logs in {self._settings.paths.logs}"
                    )
                time.sleep(_POLL_S)

    def _states_or_none(self) -> dict[str, State] | None:
        """The states, or None while the supervisor is not up yet."""
        assert self._process is not None  # noqa: S101 - set by _start_supervisor
        if self._process.poll() is not None:
            lines = (
                (self._settings.paths.run / "supervisord.err").read_text(encoding="utf-8", errors="replace").split("\n")
            )
            said = next((line for line in lines if line.startswith("Error")), " ".join(lines).strip()[-300:])
            raise Retryable(f"the supervisor did not start: {said or 'it said nothing'}")
        self._offspring.look(self._process.pid)
        found = self._rpc.states()
        return {state.name: state for state in found} if found is not None else None

    @staticmethod
    def _is_ready(program: Program, state: State) -> bool:
        if state.state not in ("STARTING", "RUNNING"):
            return False
        ready = program.process.ready
        return ready() if ready is not None else state.state == "RUNNING"

    def _log(self, program: Program) -> Path:
        return self._settings.paths.logs / f"{program.name}.log"

    def _last_line(self, program: Program) -> str:
        try:
            lines = self._log(program).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")
