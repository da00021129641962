"""A real store server for tests: starts in about 0.1 s, can be killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hermes_tasks.contracts.errors import Retryable, StoreUnavailable
from hermes_tasks.observe.parent import PARENT_VARIABLE
from hermes_tasks.observe.ports import free_port
from hermes_tasks.store.embedded import HOST, ServerPaths, answers, prepare
from hermes_tasks.store.home_files import read_secret

_POLL_S: Final = 0.005
_START_S: Final = 20.0


class EmbeddedServer:
    """The embedded store as a context manager.

    Args:
        root: its home; data stays there, so a second server on the same root continues it.
        port: 0 = a free one; it is kept over restarts.
        max_memory_mb: its memory limit.

    The server ends with the *thread* that called :meth:`start` (a property of the kernel's parent-death signal):
    call it from the main thread or from one that lives as long as the test.
    """

    def __init__(self, root: Path, port: int = 0, *, max_memory_mb: int = 256) -> None:
        self.paths: ServerPaths = prepare(root, port or free_port(), max_memory_mb=max_memory_mb)
        self._max_memory_mb = max_memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Database 0: the records."""
        return self.paths.url(0)

    @property
    def broker_url(self) -> str:
        """Database 1: the broker's queues."""
        return self.paths.url(1)

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return self.paths.port

    def running(self) -> bool:
        """True while the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and return when it answers. Does nothing while it runs.

        Raises:
            StoreUnavailable: it ended at once or did not answer in time; the text has its last output.
        """
        if self.running():
            return
        log = self.paths.home.logs / "store.log"
        command = [
            sys.executable, "-m", "hermes_tasks.store.embedded",
            "--home", str(self.paths.home.root), "--port", str(self.port),
            "--max-memory-mb", str(self._max_memory_mb),
        ]  # fmt: skip
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        password = read_secret(self.paths.home.store_password)
        deadline = time.monotonic() + _START_S
        while not answers(self.port, password):
            if not self.running() or time.monotonic() > deadline:
                self.kill()
                tail = log.read_text(encoding="utf-8", errors="replace")[-500:]
                raise StoreUnavailable(f"the test server did not start: {tail.strip()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it in order (SIGTERM), thawed first; kill it after 10 s. Does nothing when it does not run."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.thaw()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL it and return when it is gone; :meth:`start` brings it back from its log."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._frozen = False

    def freeze(self) -> None:
        """Stop it from answering while its connections stay open (SIGSTOP)."""
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    def flush(self) -> None:
        """Delete everything in all databases.

        Raises:
            StoreUnavailable: it did not do so within 10 s.
        """
        password = read_secret(self.paths.home.store_password)
        request = f"AUTH {password}\r\nFLUSHALL SYNC\r\nQUIT\r\n".encode()
        reply = b""
        try:
            with socket.create_connection((HOST, self.port), timeout=10) as connection:
                connection.sendall(request)
                while piece := connection.recv(256):
                    reply += piece
        except OSError as error:
            raise StoreUnavailable(f"the test server does not answer: {error}") from None
        if reply != b"+OK\r\n" * 3:
            raise StoreUnavailable(f"the test server refused to flush: {reply!r}")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            raise Retryable("the test server does not run; start it first")
        os.kill(self._process.pid, number)
