"""Tries each layer in a process of its own and tells which of them hold. Imports the standard library only.

Standard input carries the question ``[directory, network]`` as JSON; standard output gets one JSON object: the name of
each layer and what was wrong with it, "" for nothing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

from hermes_tasks.tools.sandbox import kernel, landlock, namespaces, seccomp
from hermes_tasks.tools.sandbox.paths import PROGRAMS

TEMPORARY = "temporary"
NOBODY = 65534
_LONG_S = 60


def main() -> None:
    """Try all layers and print what became of each."""
    directory, network = json.loads(sys.stdin.readline())
    layers: dict[str, Callable[[], None]] = {
        "files": lambda: _files(directory),
        "calls": lambda: _calls(network=network),
        "namespaces": lambda: _namespaces(directory, network=network),
        "user": lambda: _user(directory),
        "ports": _ports,
    }
    print(json.dumps({name: _tried(layer) for name, layer in layers.items()}))  # noqa: T201 - its answer


def _tried(layer: Callable[[], None]) -> str:
    """What was wrong, found out in a child, since a layer cannot be taken off."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        wrong = ""
        try:
            layer()
        except OSError as error:
            wrong = error.strerror or str(error)
        os.write(theirs, f".{wrong}".encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(child, 0)
    return answer[1:] if answer else "the attempt broke off"


def _files(directory: str) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict([(path, landlock.READ) for path in PROGRAMS], (), landlock.version())
    os.listdir(PROGRAMS[0])
    _refused("reading elsewhere", lambda: os.listdir(directory))


def _calls(*, network: bool) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(network=network, truncate=False)
    _refused("making a Unix socket", lambda: kernel.call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0))
    _refused("making a namespace", lambda: kernel.call("unshare", namespaces.NEW_USER))


def _namespaces(directory: str, *, network: bool) -> None:
    namespaces.enter()
    if wrong := _tried(lambda: _view(directory, network=network)):
        raise OSError(wrong)


def _view(directory: str, *, network: bool) -> None:
    namespaces.build(directory, TEMPORARY, network=network)
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    if processes != ["1"]:
        raise OSError("processes of others are in sight")


def _user(directory: str) -> None:
    """What a root does for a workspace: give it away, work in it all the same, and end what runs as its user."""
    if os.geteuid() != 0:
        raise OSError("the worker is no root")
    given = f"{directory}/given"
    os.mkdir(given, 0o700)
    os.chown(given, NOBODY, NOBODY)
    os.chmod(given, 0o700)
    os.mkdir(f"{given}/below")
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(theirs, b".")
        time.sleep(_LONG_S)
        os._exit(0)
    os.close(theirs)
    changed = os.read(ours, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not changed:
        raise OSError("it cannot become another user")


def _ports() -> None:
    known = landlock.version()
    if known < landlock.VERSION_PORTS:
        raise OSError(
            f"Landlock has version {known} here, and rules about ports since version {landlock.VERSION_PORTS}"
        )
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    with socket.socket() as ours:
        landlock.restrict([], (), known)
        _refused("connecting", lambda: ours.connect(("127.0.0.1", 1)))


def _refused(what: str, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except PermissionError:
        return
    except OSError:
        pass
    raise OSError(f"{what} is not refused")


if __name__ == "__main__":
    main()
