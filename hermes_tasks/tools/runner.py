"""Runs one command and dies with its worker. Run by path with ``python -I -S``; imports the standard library only.

Standard input carries one JSON line ``{command, cwd, env, uid, limits}`` and then stays open as a life line: when it
ends (the worker closed it, or died), everything the command started is killed. The runner is the sub-reaper of its
descendants, so a process that leaves the group or the session is still found. Exit code: the command's own, or
128 + the signal that ended it.
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

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            raise SystemExit(125)
        line += piece
    return line


def _children() -> list[int]:
    me = os.getpid()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                if int(stat.read().rpartition(b")")[2].split()[1]) == me:
                    found.append(int(name))
    return found


def _kill_all(group: int) -> None:
    """Kill the command's group, then whatever is left below us, until nothing is."""
    for _ in range(100):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        left = _children()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return


def main() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    asked = json.loads(_read_line())
    limits, uid = asked["limits"], asked["uid"]

    def confine() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for name, value in limits.items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        os.umask(0o077)

    process = subprocess.Popen(
        ["/bin/sh", "-c", asked["command"]], cwd=asked["cwd"], env=asked["env"], stdin=subprocess.DEVNULL,
        start_new_session=True, close_fds=True, preexec_fn=confine,
    )

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 64):
                pass
        _kill_all(process.pid)
        os._exit(137)

    threading.Thread(target=watch, daemon=True).start()
    code = process.wait()
    _kill_all(process.pid)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
