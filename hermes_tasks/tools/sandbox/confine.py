"""The last step before a command: files and system calls are taken away from this very process."""

from __future__ import annotations

from hermes_tasks.tools.sandbox import landlock, seccomp
from hermes_tasks.tools.sandbox.paths import DEVICES, MACHINE, PROC, PROGRAMS, settings

#: With the network on. Store, broker, front and Flower listen elsewhere.
WEB_PORTS = (80, 443)
_SHARED_MEMORY = "/dev/shm"


def confine(workspace: str, *, namespaces: bool, network: bool) -> None:
    """Leave programs, devices and the workspace, and the system calls that ordinary work needs. Cannot be undone.

    Args:
        workspace: a real path; commands may do everything in it.
        namespaces: this process sees a root of its own, with its own processes, ``/tmp`` and shared memory.
        network: TCP to the ports of the web, and UDP.

    Raises:
        OSError: the kernel does not do it, or the workspace lies where every command may read.
    """
    if any(workspace == path or workspace.startswith(f"{path}/") for path in PROGRAMS):
        raise OSError(f"{workspace} lies among the programs, which every command may read; move tools.workspaces")
    known = landlock.version()
    own = (workspace, *(("/tmp", _SHARED_MEMORY) if namespaces else ()))
    rules = [
        *((path, landlock.READ) for path in (*PROGRAMS, *settings(), *((PROC,) if namespaces else MACHINE))),
        *((path, landlock.DEVICE) for path in DEVICES),
        *((path, landlock.CHANGE) for path in own),
    ]
    landlock.restrict(rules, WEB_PORTS if network else (), known)
    seccomp.install(network=network, truncate=known >= landlock.VERSION_TRUNCATE)
