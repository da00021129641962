"""Which layers of the sandbox hold on this machine, for this user: tried, not guessed from versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hermes_tasks.tools.sandbox.probe import TEMPORARY
from hermes_tasks.tools.sandbox.started import bare_python

_PROBE: Final = bare_python("hermes_tasks.tools.sandbox.probe")
_PROBE_S: Final = 30
_HELD: Final = {
    "files": "Landlock: commands open programs and their own workspace, nothing else",
    "calls": "seccomp: no sockets, no way into other processes, none back to rights",
    "ports": "Landlock and seccomp: of the network UDP, and TCP to the ports 80 and 443",
    "user": "each workspace has a user id of its own",
    "namespaces": "each command has a view of files and processes of its own",
}
_REMEDIES: Final = {
    "files": "use Linux 5.13 or newer with Landlock switched on (kernel argument lsm=landlock,...)",
    "calls": "use a kernel with seccomp filters, on x86_64 or aarch64",
    "ports": "use Linux 6.7 or newer, or set tools.terminal_network = false",
    "user": "give root the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID and SETUID",
    "namespaces": "allow user namespaces, or run the worker as root, which gives each workspace a user id of its own",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    Attributes:
        needed: no command runs without it.
        says: what it does where it holds; else why it does not, and what to do about it.
    """

    name: str
    holds: bool
    needed: bool
    says: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """All layers, as they are for the user of this process."""

    layers: tuple[Layer, ...]

    @property
    def missing(self) -> tuple[Layer, ...]:
        """Those without which no command runs."""
        return tuple(layer for layer in self.layers if layer.needed and not layer.holds)

    @property
    def namespaces(self) -> bool:
        """Commands get namespaces of their own."""
        return any(layer.name == "namespaces" and layer.holds for layer in self.layers)


@cache
def sandbox(*, network: bool = False) -> Sandbox:
    """What holds here. The first call starts processes and takes a tenth of a second; later ones say the same.

    Args:
        network: commands may use it, so something must limit where they go.
    """
    wrong = _tried(network=network)
    root = os.geteuid() == 0
    needed = {"files": True, "calls": True}
    needed |= {"ports": True} if network else {}
    needed |= {"user": True, "namespaces": False} if root else {"namespaces": True}
    return Sandbox(
        tuple(
            Layer(name, not wrong[name], must, f"{wrong[name]}; {_REMEDIES[name]}" if wrong[name] else _HELD[name])
            for name, must in needed.items()
        )
    )


def _tried(*, network: bool) -> dict[str, str]:
    """What is wrong with each layer, "" for nothing."""
    if sys.platform != "linux":
        return dict.fromkeys(_HELD, "only Linux has it")
    directory = Path(tempfile.mkdtemp(prefix="hermes-tasks-"))
    try:
        (directory / TEMPORARY).mkdir()
        done = subprocess.run(
            _PROBE,
            input=json.dumps([str(directory), network]),
            capture_output=True,
            text=True,
            cwd="/",
            env={},
            timeout=_PROBE_S,
            check=True,
        )
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return dict.fromkeys(_HELD, f"it could not be tried ({error})")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return found
