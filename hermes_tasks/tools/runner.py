"""Runs one command and ends with its worker. Run by path with ``python -I -S``; imports the standard library only.

Standard input carries one JSON line ``{command, cwd, env, uid, limits}`` and then stays open as a life line: when it
ends (the worker closed it, or died), everything the command started is killed. The runner is the sub-reaper of its
descendants, so a process that leaves the group or the session is still found. Standard output is the command's;
standard error gets its process group, for the case that the runner is killed. Exit code: the command's own, or
128 + the signal that ended it; 125 = the command could not be started, and standard output says why.

What it does not do: it hides no files and no network, and where the worker is an ordinary user, the command is that
user too and could kill this process first. That is the sandbox's part.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_NOT_STARTED = 125
_KILL_S = 2.0


def main() -> None:
    """Start the command, wait for its end or the end of the life line, and leave nothing behind."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    asked = json.loads(_read_line())
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", asked["command"]],
            cwd=asked["cwd"],
            env=asked["env"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
            preexec_fn=lambda: _confine(asked),  # noqa: PLW1509 - the only thread so far
        )
    except (OSError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"the command could not be started: {error}\n")
        sys.stdout.flush()
        os._exit(_NOT_STARTED)
    os.write(2, b"%d\n" % process.pid)
    threading.Thread(target=_watch, args=(process.pid,), daemon=True).start()
    code = process.wait()
    _kill_all(process.pid)
    os._exit(code if code >= 0 else 128 - code)


def _confine(asked: dict[str, Any]) -> None:
    """Between fork and exec: limits, then the unprivileged user, then what a change of user would take back."""
    for name, wanted in asked["limits"].items():
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(number, (value, value))
    if asked["uid"] is not None:
        os.setgroups([])
        os.setgid(asked["uid"])
        os.setuid(asked["uid"])
    os.umask(0o077)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(group: int) -> None:
    """Wait for the end of the life line."""
    with contextlib.suppress(OSError):
        while os.read(0, 64):
            pass
    _kill_all(group)
    os._exit(128 + signal.SIGKILL)


def _kill_all(group: int) -> None:
    """Kill the command's group, then whatever is left below us, until nothing is."""
    deadline = time.monotonic() + _KILL_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    while True:
        left = _children()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.005)


def _children() -> list[int]:
    """Our children, zombies included; orphans below us have become ours."""
    me = os.getpid()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # gone meanwhile
            if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == me:
                found.append(int(entry.name))
    return found


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)  # not a byte more: the rest belongs to the life line
        if not piece:
            raise SystemExit(_NOT_STARTED)
        line += piece
    return line


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
