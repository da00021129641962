"""Paths inside a workspace, opened so that neither ``..`` nor a link can lead out, whatever changes meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from hermes_tasks.tools.workspace import tool_uid

_FOLLOW_NOTHING: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class Outside(Exception):  # noqa: N818 - what happened, not an error class of the project: tools turn it into their output
    """The path does not lie in the workspace, or something on its way is a link or no directory."""


def parts_of(path: str, workspace: Path) -> tuple[str, ...]:
    """The components of a path relative to the workspace. An absolute path is accepted only below it.

    Raises:
        Outside: it does not lie in the workspace.
    """
    if "\0" in path or not path.strip():
        raise Outside("give a path inside the workspace")
    pure = PurePosixPath(path)
    if pure.is_absolute():
        try:
            pure = pure.relative_to(PurePosixPath(str(workspace)))
        except ValueError:
            raise Outside(f"{path} is outside the workspace; use a path relative to it") from None
    if ".." in pure.parts:
        raise Outside(f"{path} contains '..'; use a path inside the workspace")
    return pure.parts


@contextmanager
def directory(workspace: Path, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory ``parts`` below the workspace, opened component by component.

    Raises:
        Outside: a component is a link, or no directory.
        FileNotFoundError: a component is missing and ``make`` is false.
    """
    handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | _FOLLOW_NOTHING)
    try:
        for part in parts:
            if make:
                _make(handle, part)
            following = _enter(handle, part)
            os.close(handle)
            handle = following
        yield handle
    finally:
        os.close(handle)


def _make(handle: int, part: str) -> None:
    try:
        os.mkdir(part, 0o700, dir_fd=handle)
    except FileExistsError:
        return
    if (uid := tool_uid()) is not None:
        os.chown(part, uid, uid, dir_fd=handle, follow_symlinks=False)


def _enter(handle: int, part: str) -> int:
    try:
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | _FOLLOW_NOTHING, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Outside(f"{part} is a link or no directory; only real directories of the workspace can be used") from None
        raise


def read_bytes(workspace: Path, parts: tuple[str, ...], most: int) -> tuple[bytes, int]:
    """(the first ``most`` bytes, the size) of a regular file.

    Raises:
        Outside: it is a link or no regular file.
        FileNotFoundError: it does not exist.
    """
    with directory(workspace, parts[:-1]) as handle:
        file = _open(parts[-1], os.O_RDONLY | os.O_NONBLOCK, handle)
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            raise Outside(f"{parts[-1]} is no regular file")
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(most), info.st_size
    finally:
        os.close(file)


def write_bytes(workspace: Path, parts: tuple[str, ...], data: bytes) -> None:
    """Replace a file, whole or not at all; directories on the way are made.

    Raises:
        Outside: something on the way is a link, or the target is no regular file.
    """
    with directory(workspace, parts[:-1], make=True) as handle:
        mode = 0o600
        try:
            there = os.stat(parts[-1], dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            pass
        else:
            if not stat.S_ISREG(there.st_mode):
                raise Outside(f"{parts[-1]} is a link or no regular file")
            mode = stat.S_IMODE(there.st_mode)
        part = f".{parts[-1][:100]}.{os.getpid()}.{os.urandom(6).hex()}.part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FOLLOW_NOTHING, mode, dir_fd=handle)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
                os.fchmod(stream.fileno(), mode)
                if (uid := tool_uid()) is not None:
                    os.fchown(stream.fileno(), uid, uid)
            os.rename(part, parts[-1], src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            os.unlink(part, dir_fd=handle)
            raise


def _open(name: str, flags: int, handle: int) -> int:
    try:
        return os.open(name, flags | _FOLLOW_NOTHING, dir_fd=handle)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Outside(f"{name} is a link; only real files of the workspace can be used") from None
        raise
