"""Workspaces: one directory per user, the only place where tools touch files.

The same directory on every worker: on several hosts it must be a shared file system.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import checked_user_id

#: ``nobody``: who runs commands when the worker itself is root.
NOBODY: Final = 65534


def tool_uid() -> int | None:
    """The user id that commands run as when the worker is root; None = the worker's own."""
    return NOBODY if os.geteuid() == 0 else None


class Workspaces:
    """The directories of all users.

    Args:
        root: holds one directory per user, mode 0700.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def for_user(self, user: str) -> Path:
        """The user's directory, made on first use.

        Raises:
            InvalidRequest: it cannot be made.
        """
        path = self._root / checked_user_id(user)
        uid = tool_uid()
        try:
            if not path.is_dir():
                self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
                path.mkdir(exist_ok=True, mode=0o700)
            if uid is not None:
                _reachable(self._root)
                os.chown(path, uid, uid)
        except OSError as error:
            raise InvalidRequest(f"cannot use the workspace {path}: {error.strerror}; check tools.workspaces") from None
        return path


def _reachable(path: Path) -> None:
    """Let the unprivileged user pass through the directory that holds the workspaces, without reading it."""
    mode = path.stat().st_mode
    if not mode & 0o001:
        path.chmod(mode | 0o011)
