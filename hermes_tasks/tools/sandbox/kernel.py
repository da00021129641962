"""Calls of the kernel that Python has no name for."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def call(name: str, *args: int | bytes | ctypes.c_void_p | None) -> int:
    """What the C library's function ``name`` returns.

    Raises:
        OSError: it returned a negative number; the text names the function and the reason.
    """
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]  # an int alone is cut to 32 bits
    result: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*words)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int, more: ctypes.c_void_p | None = None) -> None:
    """Change something about this process.

    Raises:
        OSError: the kernel does not do it.
    """
    call("prctl", option, value, more, 0, 0)


def address(data: ctypes.Array[ctypes.c_char]) -> ctypes.c_void_p:
    """Where ``data`` lies. The caller keeps it alive."""
    return ctypes.cast(data, ctypes.c_void_p)
