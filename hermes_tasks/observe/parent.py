"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Final

#: Names the pid of the starter for a child that may look for it too late; removed from the environment when read.
PARENT_VARIABLE: Final = "HT_PARENT_PID"
_PR_SET_PDEATHSIG: Final = 1
_POLL_S: Final = 0.5


def living_parent() -> int:
    """The pid of the process that started us.

    Raises:
        SystemExit: it is gone already.
    """
    parent = int(os.environ.pop(PARENT_VARIABLE, os.getppid()))
    _check(parent)
    return parent


def _check(parent: int) -> None:
    if os.getppid() != parent:
        raise SystemExit(f"the process that started us (pid {parent}) is gone; start again through it")


def tie_to_parent() -> bool:
    """Have the kernel send us SIGTERM when our parent dies; the tie survives an ``exec``.

    Returns:
        False where the system has no such signal (only Linux has): the caller must watch ``os.getppid()`` itself.

    Raises:
        SystemExit: the parent died before the tie was made.

    On Linux the *thread* that started us counts as the parent: start children from a thread that stays.
    A second call changes nothing.
    """
    parent = living_parent()
    tied = False
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        tied = bool(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) == 0)
    _check(parent)  # it may have died just before the tie was made
    return tied


def die_with_parent(grace_s: float = 8.0) -> None:
    """End this process when its parent dies: SIGTERM at once, SIGKILL when it still runs after the grace.

    Args:
        grace_s: seconds between the two, for an orderly stop.

    Raises:
        SystemExit: the parent is gone already.

    Call it once, first thing in a launcher. It starts one daemon thread, which is not inherited by forks.
    """
    parent = os.getppid()
    tied = tie_to_parent()
    threading.Thread(
        target=_watch, args=(parent, grace_s), kwargs={"terminate": not tied}, name="parent-watch", daemon=True
    ).start()


def _watch(parent: int, grace_s: float, *, terminate: bool) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    if terminate:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os.kill(os.getpid(), signal.SIGKILL)
