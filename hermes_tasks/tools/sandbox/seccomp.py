"""Which system calls a command may make: a filter in the kernel, for good.

It names what is refused, so that ordinary programs find all they are used to; calls newer than this file do not exist
for a command. Refused is what leads to a socket other than a pair of its own, into other processes, or back to rights.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

from hermes_tasks.tools.sandbox import kernel

#: uname's name of the machine, its number in the kernel's audit header, and its column below.
_MACHINES = {"x86_64": (0xC000_003E, 0), "aarch64": (0xC000_00B7, 1)}
_NEWEST = 462

_CALLS = {
    # network
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    # a second road to most calls, past this filter
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    # keys belong to a user id, not to a namespace
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # namespaces, mounts, files past their paths
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "truncate": (76, 45),
    # the machine
    "bpf": (321, 280),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
_ALWAYS = frozenset(_CALLS) - {"connect", "bind", "socketpair", "sendto", "sendmsg", "sendmmsg", "clone", "truncate"}
#: Said to be missing rather than refused: libraries then take the older road, which can be judged.
_MISSING = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")

_CLONE_NEW = 0x7E02_0000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _PACKET, _TYPES = 1, 2, 5, 0xF
_ANY, _TCP, _UDP = 0, 6, 17
#: Connects and sends at once, past Landlock's rule about connecting.
_FAST_OPEN = 0x2000_0000

_LOAD, _AND, _EQUAL, _OR_ABOVE, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_AT_CALL, _AT_MACHINE, _AT_ARGS = 0, 4, 16
_ALLOWED, _KILLED = 0x7FFF_0000, 0x8000_0000
_NOT_PERMITTED, _NO_SUCH_CALL = 0x5_0000 | errno.EPERM, 0x5_0000 | errno.ENOSYS

_Code = list[bytes]


def install(*, network: bool, truncate: bool) -> None:
    """From now on this process and all it starts make only the calls that are left. Cannot be undone.

    Args:
        network: Internet sockets for TCP and UDP may be made. Where they may connect to is not decided here.
        truncate: the call of that name may be made, because something else decides about its file.

    Raises:
        OSError: the kernel does not do it, or there is no table of this machine's calls.
    """
    program = b"".join(_program(network=network, truncate=truncate))
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, kernel.address(code).value)
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, kernel.address(ctypes.create_string_buffer(header, len(header))))


def _program(*, network: bool, truncate: bool) -> _Code:
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no table of the system calls of {machine}")
    number, column = _MACHINES[machine]
    refused = set(_ALWAYS)
    judged: dict[str, _Code] = {
        "clone": _none_of(0, _CLONE_NEW),
        "socketpair": [*_one_of(0, (_AF_UNIX,)), *_one_of(1, (_STREAM, _PACKET), _TYPES)],
    }
    if network:
        refused.remove("socket")
        judged |= {
            "socket": [
                *_one_of(0, (_AF_INET, _AF_INET6)),
                *_one_of(1, (_STREAM, _DATAGRAM), _TYPES),
                *_one_of(2, (_ANY, _TCP, _UDP)),
            ],
            "sendto": _none_of(3, _FAST_OPEN),
            "sendmsg": _none_of(2, _FAST_OPEN),
            "sendmmsg": _none_of(3, _FAST_OPEN),
        }
    else:
        refused |= {"connect", "bind"}
    if not truncate:
        refused.add("truncate")
    answers = {name: [_step(_RETURN, _NO_SUCH_CALL if name in _MISSING else _NOT_PERMITTED)] for name in refused}
    answers |= {name: [*checks, _step(_RETURN, _ALLOWED)] for name, checks in judged.items()}
    code = [
        _step(_LOAD, _AT_MACHINE),
        _step(_EQUAL, number, yes=1),
        _step(_RETURN, _KILLED),
        _step(_LOAD, _AT_CALL),
        _step(_OR_ABOVE, _NEWEST + 1, no=1),  # also x86's second table, whose numbers begin at a thousand million
        _step(_RETURN, _NO_SUCH_CALL),
    ]
    for name, answer in sorted(answers.items()):
        if (call := _CALLS[name][column]) is not None:
            code += [_step(_EQUAL, call, no=len(answer)), *answer]
    return [*code, _step(_RETURN, _ALLOWED)]


def _one_of(argument: int, values: Iterable[int], mask: int | None = None) -> _Code:
    """Goes on if the argument is one of ``values``, else the call is refused."""
    values = tuple(values)
    found = [_step(_EQUAL, value, yes=len(values) - at) for at, value in enumerate(values)]
    masked = [] if mask is None else [_step(_AND, mask)]
    return [_load(argument), *masked, *found, _step(_RETURN, _NOT_PERMITTED)]


def _none_of(argument: int, bits: int) -> _Code:
    """Goes on if the argument has none of ``bits``, else the call is refused."""
    return [_load(argument), _step(_ANY_BIT, bits, no=1), _step(_RETURN, _NOT_PERMITTED)]


def _load(argument: int) -> bytes:
    """The lower half of an argument; of those we look at, the kernel reads no more either."""
    return _step(_LOAD, _AT_ARGS + 8 * argument)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; ``yes`` and ``no`` say how many of the following are then left out."""
    return struct.pack("HBBI", code, yes, no, value)
