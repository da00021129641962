"""The supervisor as a child of ours: started with the home's lock, asked over its socket, stopped without a trace."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hermes_tasks.cli.offspring import Offspring
from hermes_tasks.cli.processes import Process
from hermes_tasks.cli.supervisor_conf import render
from hermes_tasks.cli.supervisor_rpc import State, Supervisor
from hermes_tasks.contracts.errors import Conflict, HermesTasksError, Retryable
from hermes_tasks.contracts.home import Home
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.observe.parent import PARENT_VARIABLE
from hermes_tasks.store.home_files import write_private

_POLL_S: Final = 0.1
#: The length of a Unix socket's path, less what the supervisor appends to it while it makes the socket.
_SOCKET_PATH: Final = 90


class SupervisorProcess:
    """Starts the supervisor for a table of processes; none of them runs until :meth:`start_program`.

    Args:
        home: where its files lie.
        table: what it will run.
        environ: the environment of all of them.
        lock: the descriptor of the home's lock, which it holds as long as it lives.

    Raises:
        InvalidRequest: the table has something that its configuration cannot carry.
        Conflict: the place for its socket belongs to somebody else.
    """

    def __init__(self, home: Home, table: Sequence[Process], environ: Mapping[str, str], lock: int) -> None:
        self._home = home
        self._short_dir: Path | None = None
        self._offspring = Offspring()
        socket = home.run / "supervisor.sock"
        if len(str(socket)) > _SOCKET_PATH:
            self._short_dir = _short_dir(home)
            socket = self._short_dir / "supervisor.sock"
        configuration = home.run / "supervisord.conf"
        try:
            write_private(configuration, render(home, socket, table))
        except HermesTasksError:
            self._remove_short_dir()
            raise
        self._rpc = Supervisor(socket)
        self._errors = home.run / "supervisord.err"
        command = [sys.executable, "-P", "-m", "hermes_tasks.cli.supervisor_main", str(configuration), str(lock)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**environ, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"},
                pass_fds=(lock,),
                # Ctrl-C on the terminal is ours to handle: the supervisor is told by us, once.
                start_new_session=True,
            )

    def states(self) -> dict[str, State] | None:
        """Every program by its name, or None while it does not answer.

        Raises:
            Retryable: it has ended.
        """
        if self._process.poll() is not None:
            lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
            said = next((line for line in lines if line.startswith("Error")), " ".join(lines).strip()[-300:])
            raise Retryable(f"the supervisor has ended: {said or 'see ' + str(self._home.logs / 'supervisor.log')}")
        self._offspring.look(self._process.pid)
        found = self._rpc.states()
        return {state.name: state for state in found} if found is not None else None

    def start_program(self, full_name: str) -> None:
        """Start one program; does nothing when it runs.

        Raises:
            Retryable: the supervisor does not answer.
        """
        self._rpc.start(full_name)

    def stop(self, seconds: float) -> list[str]:
        """Stop it with everything it runs; kill what is left after ``seconds``.

        Returns:
            The commands that had to be killed.
        """
        deadline = time.monotonic() + seconds
        self._offspring.look(self._process.pid)
        self._process.terminate()
        while time.monotonic() < deadline:
            if self._process.poll() is None:
                self._offspring.look(self._process.pid)
            elif not self._offspring.alive():
                break
            time.sleep(_POLL_S)
        killed = self._offspring.kill()
        self._process.kill()
        self._process.wait()
        self._remove_short_dir()
        return killed

    def _remove_short_dir(self) -> None:
        if self._short_dir is not None:
            shutil.rmtree(self._short_dir, ignore_errors=True)


def _short_dir(home: Home) -> Path:
    """A private directory with a short path, the same for the same home: one that a kill left behind is used again."""
    path = Path(tempfile.gettempdir()) / f"hermes-tasks-{derived_id(os.getuid(), str(home.root))[:16]}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Conflict(f"{path} is not ours alone; remove it, or use a home with a shorter path", field="home")
    return path
