"""One ``up`` per home: a lock that lives as long as the supervisor, not only as long as the command."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

import psutil

from hermes_tasks.contracts.errors import Conflict

_LEAVING_S: Final = 12.0
_POLL_S: Final = 0.1


def take_home(lock: Path, *, patience_s: float = _LEAVING_S) -> int:
    """Take the lock and return its descriptor; closing it (in every process that has it) gives it back.

    Args:
        lock: the lock file; it holds the pid of the owner.
        patience_s: how long to wait for processes of an owner that died and are still stopping.

    Raises:
        Conflict: the home is in use.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(lock)
            if owner is not None and not psutil.pid_exists(owner) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            os.close(descriptor)
            who = f"pid {owner}" if owner is not None else "pid unknown"
            raise Conflict(
                f"Hermes Tasks already runs on {lock.parent.parent} ({who}); stop that one or use another --home",
                field="home",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        return descriptor


def _owner(lock: Path) -> int | None:
    text = lock.read_text(encoding="ascii", errors="replace").strip()
    return int(text) if text.isdecimal() else None
