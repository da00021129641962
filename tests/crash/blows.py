"""Ways to strike processes, and what each of them leaves behind."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum

from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import wait_until, with_signal
from tests.crash.viewer import Operator

FROZEN_S = 10.0
#: A worker that is told to stop gives its runs 4 s, and ``up`` gives it 6 s.
STOP_S = 6.0

Processes = Sequence["subprocess.Popen[bytes]"]


class Blow(StrEnum):
    """What happens to a process, or to the store under all of them."""

    SIGKILL = "sigkill"
    SIGTERM = "sigterm"
    FROZEN = "frozen"
    STORE = "store"


def kill(victims: Processes) -> None:
    """SIGKILL; returns when they are gone."""
    for process in victims:
        with_signal(process, signal.SIGKILL)
    for process in victims:
        process.wait()


def stop(victims: Processes, meanwhile: Callable[[], None] = lambda: None) -> None:
    """SIGTERM, and as a supervisor does, SIGKILL for what is not gone in time; returns when all are gone."""
    for process in victims:
        with_signal(process, signal.SIGTERM)
    meanwhile()
    until = time.monotonic() + STOP_S
    for process in victims:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    kill(victims)


def stall(victims: Processes) -> None:
    """SIGSTOP."""
    for process in victims:
        with_signal(process, signal.SIGSTOP)


def thaw(victims: Processes) -> None:
    """SIGCONT; nothing for what is not frozen."""
    for process in victims:
        with_signal(process, signal.SIGCONT)


def freeze(victims: Processes, meanwhile: Callable[[], None]) -> None:
    """SIGSTOP, ``meanwhile``, and SIGCONT when 10 s have passed at least."""
    until = time.monotonic() + FROZEN_S
    stall(victims)
    meanwhile()
    threading.Event().wait(max(0.0, until - time.monotonic()))  # the length of the freeze is what is tested
    thaw(victims)


def restart(server: EmbeddedServer, operator: Operator) -> None:
    """SIGKILL of the store, and a new one on its data."""
    # With `everysec`, the default, the server may hold back for a while what it has acknowledged (docs/guarantees.md).
    operator.run(operator.base.store.redis.config_set("appendfsync", "always"))
    wait_until("the log has every write", lambda: operator.unlogged_bytes() == 0, 10, pause_s=0.001)
    server.kill()
    server.start()
