"""A view of files and processes of its own: namespaces of the kernel.

A root that may do so makes them as it is; an ordinary user makes a user namespace first, in which it has the rights to
make the others. Containers mostly refuse both.
"""

from __future__ import annotations

import os

from hermes_tasks.tools.sandbox import kernel
from hermes_tasks.tools.sandbox.paths import DEVICES, ETC, PROGRAMS, RESOLVER

_NEW_MOUNTS, _NEW_IPC, NEW_USER = 0x0002_0000, 0x0800_0000, 0x1000_0000
_NEW_PROCESSES, _NEW_NETWORK = 0x2000_0000, 0x4000_0000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x4_0000, 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_HERE, _AT_RECURSIVE = -100, 0x8000
_SHARED_MEMORY = b"mode=1777,size=64m"
#: Where the new root is put together; it hides what was there, in the view only.
_STAGE = "/tmp"


def enter() -> None:
    """The next child of this process is the first of a new process namespace. An ordinary user gets rights in it.

    Raises:
        OSError: the kernel, or a filter around us, refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        kernel.call("unshare", _NEW_PROCESSES)
        return
    kernel.call("unshare", NEW_USER | _NEW_PROCESSES)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def build(workspace: str, temporary: str, *, network: bool) -> None:
    """Leave the machine's files behind for a root with programs, devices, own processes and one workspace.

    To be called by the first process of the namespace. Nothing else is there: what cannot be named can neither be
    looked at nor changed.

    Args:
        workspace: a real path.
        temporary: the name of the directory in it that stands for ``/tmp``.
        network: the network stays what it is; otherwise there is an empty one.

    Raises:
        OSError: the kernel refuses, or a directory is none.
    """
    kernel.call("unshare", _NEW_MOUNTS | _NEW_IPC | (0 if network else _NEW_NETWORK))
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    no_link = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    home = os.open(workspace, no_link)
    tmp = os.open(temporary, no_link, dir_fd=home)
    os.umask(0o022)
    _mount("tmpfs", _STAGE, "tmpfs", _NO_SUID | _NO_DEVICES, b"mode=755,size=1m")
    for path in (*PROGRAMS, ETC):
        _show(path)
    if network and not (resolver := os.path.realpath(RESOLVER)).startswith(f"{ETC}/"):
        _show(resolver)
    for path in DEVICES:
        _bind(path, path)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{_STAGE}/dev/{name}")
    os.makedirs(f"{_STAGE}/dev/shm")
    _mount("tmpfs", f"{_STAGE}/dev/shm", "tmpfs", _NO_SUID | _NO_DEVICES, _SHARED_MEMORY)
    os.mkdir(f"{_STAGE}/proc")
    _mount("proc", f"{_STAGE}/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXEC)
    if not workspace.startswith("/tmp/"):
        _bind(f"/proc/self/fd/{tmp}", "/tmp", _NO_SUID | _NO_DEVICES)
    _bind(f"/proc/self/fd/{home}", workspace, _NO_SUID | _NO_DEVICES)
    _limit(_STAGE, _READ_ONLY)
    os.chdir(_STAGE)
    kernel.call("syscall", _PIVOT_ROOT[os.uname().machine], b".", b".")
    kernel.call("umount2", b".", _DETACH)
    os.chdir("/")
    os.close(home)
    os.close(tmp)


def _show(path: str) -> None:
    """The same thing at the same place, read-only; a link stays one; what is not there is passed over."""
    if os.path.islink(path):
        os.symlink(os.readlink(path), _STAGE + path)
    elif os.path.exists(path):
        _bind(path, path, _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _bind(source: str, path: str, limits: int = 0) -> None:
    target = _STAGE + path
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
    _mount(source, target, None, _BIND | _RECURSIVE)
    if limits:
        _limit(target, limits, _AT_RECURSIVE)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None) -> None:
    try:
        kernel.call(
            "mount",
            source.encode() if source else None,
            target.encode(),
            kind.encode() if kind else None,
            flags,
            options,
        )
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({kind or source or 'private'} at {target})") from None


def _limit(path: str, attributes: int, flags: int = 0) -> None:
    """Attributes of a mount: of these four the old and the new call use the same numbers."""
    wanted = attributes.to_bytes(8, "little") + bytes(24)
    kernel.call("syscall", _MOUNT_SETATTR, _HERE, path.encode(), flags, wanted, len(wanted))


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
