"""Paths inside a workspace, opened so that neither ``..`` nor a link can lead out, whatever changes meanwhile.

A link that stays inside is followed once, before anything is opened; what is then opened is entered directory by
directory without following any, so a link put there in between leads nowhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from hermes_tasks.tools.workspace import tool_uid

Parts = tuple[str, ...]

_FOLLOW_NOTHING: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_TURN_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.01


class Outside(Exception):
    """The path does not lie in the workspace, or what is there cannot be used."""


def parts_of(path: str, workspace: Path) -> Parts:
    """The components of a path relative to the workspace, links inside it resolved.

    An absolute path is accepted only below the workspace. Whatever leads out gives the same answer, whether
    something is there or not.

    Raises:
        Outside: it does not lie in the workspace.
    """
    if "\0" in path or not path.strip():
        raise Outside("give a path inside the workspace")
    pure = PurePosixPath(path)
    root = os.path.realpath(workspace)
    if pure.is_absolute():
        base = next((base for base in (str(workspace), root) if pure.is_relative_to(base)), None)
        if base is None:
            raise _leads_out(path)
        pure = pure.relative_to(base)
    if ".." in pure.parts:
        raise _leads_out(path)
    real = PurePosixPath(os.path.realpath(PurePosixPath(root) / pure))
    if not real.is_relative_to(root):
        raise _leads_out(path)
    return real.relative_to(root).parts


def file_parts(path: str, workspace: Path) -> Parts:
    """As :func:`parts_of`, for something that must be a file.

    Raises:
        Outside: it does not lie in the workspace, or is the workspace itself.
    """
    parts = parts_of(path, workspace)
    if not parts:
        raise Outside("that is the workspace itself; name a file in it")
    return parts


@contextmanager
def directory(workspace: Path, parts: Parts, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory ``parts`` below the workspace, opened component by component.

    Raises:
        Outside: a component is a link, or no directory.
        FileNotFoundError: a component is missing and ``make`` is false.
    """
    handle = os.open(os.path.realpath(workspace), os.O_RDONLY | os.O_DIRECTORY | _FOLLOW_NOTHING)
    try:
        for part in parts:
            if make:
                _make(handle, part, tool_uid(workspace))
            following = _open(part, os.O_RDONLY | os.O_DIRECTORY, handle)
            os.close(handle)
            handle = following
        yield handle
    finally:
        os.close(handle)


@contextmanager
def turn(workspace: Path) -> Iterator[None]:
    """The sole right to change files of the workspace by tools: two patches of one file must not lose one.

    Holds across processes of one machine. It is advisory: commands of the terminal do not ask.

    Raises:
        Outside: others had it for 10 s on end.
    """
    with directory(workspace, ()) as handle:
        deadline = time.monotonic() + _TURN_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Outside("other calls are writing to this workspace; try again") from None
                time.sleep(_LOOK_AGAIN_S)
            except OSError:  # some network file systems lock no directories: better unlocked than not at all
                break
        yield  # closing the handle gives the right back


@contextmanager
def opened(workspace: Path, parts: Parts) -> Iterator[BinaryIO]:
    """A regular file, to read.

    Raises:
        Outside: it is a link, no regular file, or not the user's.
        FileNotFoundError: it does not exist.
    """
    with directory(workspace, parts[:-1]) as handle:
        file = _open(parts[-1], os.O_RDONLY | os.O_NONBLOCK, handle)
    with os.fdopen(file, "rb") as stream:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or _borrowed(info, tool_uid(workspace)):
            raise Outside(f"{parts[-1]} is no regular file of this workspace")
        yield stream


def read_bytes(workspace: Path, parts: Parts, most: int) -> tuple[bytes, int]:
    """(the first ``most`` bytes, the size) of a regular file.

    Raises:
        Outside, FileNotFoundError: see :func:`opened`.
    """
    with opened(workspace, parts) as stream:
        return stream.read(most), os.fstat(stream.fileno()).st_size


def write_bytes(workspace: Path, parts: Parts, data: bytes) -> None:
    """Replace a file, whole or not at all; directories on the way are made. A second call leaves the same file.

    Raises:
        Outside: something on the way is a link, or the target is no regular file.
    """
    with directory(workspace, parts[:-1], make=True) as handle:
        mode = 0o600
        with suppress(FileNotFoundError):
            there = os.stat(parts[-1], dir_fd=handle, follow_symlinks=False)
            if not stat.S_ISREG(there.st_mode):
                raise Outside(f"{parts[-1]} is no regular file of this workspace")
            mode = there.st_mode & 0o777
        part = f".{os.urandom(8).hex()}.part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FOLLOW_NOTHING, 0o600, dir_fd=handle)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
                if (uid := tool_uid(workspace)) is not None:
                    os.fchown(file, uid, uid)
                os.fchmod(file, mode)
            os.replace(part, parts[-1], src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            os.unlink(part, dir_fd=handle)
            raise


def _make(handle: int, part: str, uid: int | None) -> None:
    with suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=handle)
        if uid is not None:
            os.chown(part, uid, uid, dir_fd=handle, follow_symlinks=False)


def _open(name: str, flags: int, handle: int) -> int:
    try:
        return os.open(name, flags | _FOLLOW_NOTHING, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Outside(f"{name} is a link or no directory, so nothing below it can be used") from None
        raise


def _borrowed(info: os.stat_result, uid: int | None) -> bool:
    """True for somebody else's file under a second name: a worker that is root could be made to read it so."""
    return uid is not None and info.st_nlink > 1 and info.st_uid != uid


def _leads_out(path: str) -> Outside:
    return Outside(f"{path[:200]} leads out of the workspace; use a path relative to it, without '..'")
