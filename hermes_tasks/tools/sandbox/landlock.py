"""Which files a command may open, and with Linux 6.7 to which TCP ports it may connect: Landlock, for good.

Landlock does not cover looking at a file's size and times, or changing its mode, owner and times. Where these would
reach what is not the command's, its user id or its namespaces are in the way.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence

from hermes_tasks.tools.sandbox import kernel

#: The same numbers on all machines.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCKET, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
#: What can be said about a file that is no directory.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
#: The rights each version knows: the first 13, then REFER, TRUNCATE, and from version 5 on IOCTL_DEV.
_RIGHTS_UNTIL = {1: 13, 2: 14, 3: 15, 4: 15}
_RIGHTS_NOW = 16

READ = _EXECUTE | _READ_FILE | _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
CHANGE = (1 << _RIGHTS_NOW) - 1 & ~(_MAKE_CHAR | _MAKE_SOCKET | _MAKE_BLOCK | _IOCTL_DEVICE)

#: Versions that brought something we need.
VERSION_TRUNCATE, VERSION_PORTS, VERSION_SCOPES = 3, 4, 6


def version() -> int:
    """The version of Landlock that this kernel has, 1 or more.

    Raises:
        OSError: it has none, or none is switched on.
    """
    return kernel.call("syscall", _CREATE_RULESET, None, 0, _VERSION)


def restrict(rules: Iterable[tuple[str, int]], ports: Sequence[int], known: int) -> None:
    """From now on this process and all it starts can open nothing but what ``rules`` allow. Cannot be undone.

    A second call restricts further.

    Args:
        rules: (path, rights); a path that is not there is passed over.
        ports: where it may connect to by TCP; a version that knows no ports leaves them all open.
        known: the version of Landlock to use; rights it does not know are left out.

    Raises:
        OSError: the kernel does not do it.
    """
    handled = (1 << _RIGHTS_UNTIL.get(known, _RIGHTS_NOW)) - 1
    with_ports = known >= VERSION_PORTS
    attributes = struct.pack(
        "QQQ",
        handled,
        _BIND_TCP | _CONNECT_TCP if with_ports else 0,
        _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS,
    )
    size = 24 if known >= VERSION_SCOPES else 16 if known >= VERSION_PORTS else 8
    ruleset = kernel.call("syscall", _CREATE_RULESET, attributes, size, 0)
    try:
        for path, rights in rules:
            _add_path(ruleset, path, rights & handled)
        for port in ports if with_ports else ():
            kernel.call("syscall", _ADD_RULE, ruleset, _NET_PORT, struct.pack("QQ", _CONNECT_TCP, port), 0)
        kernel.call("syscall", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _add_path(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        kernel.call("syscall", _ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)
