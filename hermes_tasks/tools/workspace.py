"""Workspaces: one directory per session and one per job of a user, the only place where tools touch files.

The same directories on every worker: on several hosts they must lie on a shared file system.

    <root>/<user>/sessions/<session>      for the sub-agents of that conversation
    <root>/<user>/jobs/<job>              for every run of that job: what one leaves there, the next finds
    <root>/<user>/runs/<run>              for a run that belongs to neither

A worker that is root gives each user's workspaces to a user id of its own and runs commands as that: the kernel then
keeps the files and processes of one user from the commands of another. The directories above stay root's, so that no
command can put a link in the place of a workspace that is to come. Where the worker is an ordinary user, all commands
are that user, and only the sandbox can part them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import checked_name, checked_user_id
from hermes_tasks.contracts.runs import RunRecord

#: ``nobody``: shared by all where the kernel knows no other numbers (a container of an ordinary user).
NOBODY: Final = 65534
#: Above what systems give to people, services and containers.
_FIRST_UID: Final = 0x4000_0000
_UIDS: Final = 0x2000_0000
_MARKS: Final = ".uids"


def tool_uid(workspace: Path) -> int | None:
    """Who commands in that workspace run as: its owner where the worker is root; None = the worker itself.

    Raises:
        InvalidRequest: the workspace belongs to root, which no command may be.
    """
    if os.geteuid() != 0:
        return None
    uid = workspace.stat().st_uid
    if uid == 0:
        raise InvalidRequest("the workspace belongs to root; let Workspaces make it, or give it to another user")
    return uid


class Workspaces:
    """The workspaces of all users.

    Args:
        root: holds one directory per user.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, run: RunRecord) -> Path:
        """Where the workspace of that run lies. It may not be there yet.

        Raises:
            InvalidRequest: the record carries an id that is none.
        """
        if run.session:
            kind, name = "sessions", run.session
        elif job := run.spec.get("job"):
            kind, name = "jobs", str(job)
        else:
            kind, name = "runs", run.id
        return self._root / checked_user_id(run.user) / kind / checked_name(name, "workspace")

    def made_for(self, run: RunRecord) -> Path:
        """The workspace of that run, mode 0700, made on first use.

        Raises:
            InvalidRequest: see :meth:`path_of`; or the directory cannot be made.
        """
        path = self.path_of(run)
        try:
            if not self._ready(path):
                self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
                _let_through(self._root)
                _passage(path.parent.parent)
                _passage(path.parent)
                path.mkdir(exist_ok=True, mode=0o700)
                _check_directory(path)
                if os.geteuid() == 0:
                    self._give(path, run.user)
        except OSError as error:
            raise InvalidRequest(f"cannot use the workspace {path}: {error.strerror}; check tools.workspaces") from None
        return path

    def _ready(self, path: Path) -> bool:
        """It is there; and it is its user's own where the worker is root.

        It is not when root made it just now, or when an ordinary worker, whose user has all of them, made it before.
        """
        try:
            info = path.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISDIR(info.st_mode) and (os.geteuid() != 0 or info.st_uid not in (0, self._root.stat().st_uid))

    def _give(self, path: Path, user: str) -> None:
        uid, old = self._uid_of(user), path.stat().st_uid
        try:
            _give_below(path, old, uid)
            os.chown(path, uid, uid)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _give_below(path, old, NOBODY)
            os.chown(path, NOBODY, NOBODY)

    def _uid_of(self, user: str) -> int:
        """The number of this user and of no other: the first free one from a place that the name decides.

        A mark is a file that appears whole or not at all, so two workers agree, also over a network file system.
        """
        marks = self._root / _MARKS
        marks.mkdir(mode=0o700, exist_ok=True)
        mine = marks / f".{os.urandom(8).hex()}"
        mine.write_text(user)
        try:
            first = int.from_bytes(hashlib.sha256(user.encode()).digest()[:8], "big")
            for step in range(_UIDS):
                mark = marks / str(_FIRST_UID + (first + step) % _UIDS)
                try:
                    mark.hardlink_to(mine)
                except FileExistsError:
                    if mark.read_text() != user:
                        continue
                return int(mark.name)
            raise OSError(errno.ENOSPC, "no user id is left for another workspace")
        finally:
            mine.unlink()


def _passage(path: Path) -> None:
    """A directory of the worker's own: others may pass through it, and change nothing in it."""
    path.mkdir(exist_ok=True, mode=0o711)
    _check_directory(path)
    if os.geteuid() == 0:
        os.chown(path, 0, 0)
        path.chmod(0o711)


def _check_directory(path: Path) -> None:
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is a link or no directory")


def _let_through(path: Path) -> None:
    """Where the worker is root: let other users pass through the directory of all, without reading it."""
    mode = path.stat().st_mode
    if os.geteuid() == 0 and not mode & 0o001:
        path.chmod(mode | 0o011)


def _give_below(path: Path, old: int, uid: int) -> None:
    """What is in the directory goes to another user, as far as it was the old one's. Links are not followed."""
    for _, folders, files, handle in os.fwalk(path, follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=handle, follow_symlinks=False).st_uid == old:
                os.chown(name, uid, uid, dir_fd=handle, follow_symlinks=False)
