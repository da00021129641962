"""The worker's side of ``runner``: starts it, listens, and does not return before everything is gone."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypedDict, cast

from hermes_tasks.tools.output import Output
from hermes_tasks.tools.sandbox.started import bare_python

_RUNNER: Final = bare_python("hermes_tasks.tools.runner")
#: How long the runner may take to kill what is left, and a pipe to say that it is closed.
_END_S: Final = 3.0
_DRAIN_S: Final = 1.0
#: Before its own time begins; a machine with much to do starts processes slowly.
_START_S: Final = 15.0


class Question(TypedDict):
    """What the runner is asked to run.

    Attributes:
        cwd: the workspace, a real path.
        temporary: the name of the directory in it for temporary files.
        uid: whom the command runs as; None = as we do.
        limits: names of ``resource`` and numbers.
        sandbox, namespaces, network: whether it is shut in, sees only itself, and may use the network.
    """

    command: str
    cwd: str
    temporary: str
    env: dict[str, str]
    uid: int | None
    limits: dict[str, int]
    sandbox: bool
    namespaces: bool
    network: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: with its exit code, or killed (``code`` None) because of ``killed``."""

    code: int | None
    killed: str = ""


async def run_command(question: Question, output: Output, *, limit_s: float, most_bytes: int) -> Ended:
    """Run one command under the runner and add what it prints to ``output``.

    Whether it ends, is cancelled, or runs into a limit: when this returns or raises, nothing of it is left.

    Args:
        most_bytes: of output; who prints more is killed, since reading costs the worker time.
    """
    loop = asyncio.get_running_loop()
    listener = _Listener(output, most_bytes)
    transport, _ = await loop.subprocess_exec(
        lambda: listener,
        *_RUNNER,
        cwd="/",
        env={},
        start_new_session=True,  # a signal for the worker's terminal is not for the command
    )
    try:
        life_line = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        asked = marshal.dumps(dict(question))
        life_line.write(len(asked).to_bytes(4, "big") + asked)
        if not await _happens(listener.begun, _START_S):
            return Ended(None, f"it could not be started within {_START_S:.0f} s")
        if not await _happens(listener.over, limit_s):
            return Ended(None, f"its {limit_s:.0f} s were over")
        if listener.flooded:
            return Ended(None, f"it printed more than {most_bytes} bytes")
        return Ended(transport.get_returncode())
    finally:
        await _end(transport, listener)


async def _end(transport: asyncio.SubprocessTransport, listener: _Listener) -> None:
    """Cut the life line, wait for the runner to clean up, and read what is still in the pipe."""
    try:
        life_line = transport.get_pipe_transport(0)
        if life_line is not None:
            life_line.close()
        await _happens(listener.exited, _END_S)
        if (transport.get_returncode() or -1) < 0 and listener.group is not None:
            # The runner itself was killed, or hangs: its orphans are left to us.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(listener.group, signal.SIGKILL)
        await _happens(listener.closed, _DRAIN_S)
    finally:
        transport.close()  # kills the runner if it is still there


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    return event.is_set()


class _Listener(asyncio.SubprocessProtocol):
    """Hears the command on descriptor 1 and the runner on descriptor 2.

    Attributes:
        begun: the command runs, so its time does.
        over: nothing more is worth waiting for.
        exited: the runner is gone.
        closed: it is gone, and nobody holds its pipes any more.
        group: the command's process group, once the runner has told it.
    """

    def __init__(self, output: Output, most_bytes: int) -> None:
        self._output, self._most_bytes = output, most_bytes
        self._told = b""
        self.begun, self.over = asyncio.Event(), asyncio.Event()
        self.exited, self.closed = asyncio.Event(), asyncio.Event()
        self.flooded = False

    @property
    def group(self) -> int | None:
        told = self._told.partition(b"\n")[0]
        return int(told) if told.isdigit() else None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._told = (self._told + data)[:1000]
            self.begun.set()
            return
        if self._output.total <= self._most_bytes:
            self._output.add(data)
        if self._output.total > self._most_bytes:
            self.flooded = True
            self.over.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.begun.set()
        self.over.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - part of the protocol
        self.closed.set()
