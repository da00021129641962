"""The home directory made real: directories 0700, generated secrets 0600, and the id that stamps it."""

from __future__ import annotations

import os
import secrets
import uuid
from pathlib import Path

from hermes_tasks.contracts.errors import InvalidRequest, NotFound
from hermes_tasks.contracts.home import Home


def make_home(root: Path) -> Home:
    """The home at ``root`` with all its directories, secrets and its id; what exists is kept.

    Raises:
        InvalidRequest: it cannot be made or written.
    """
    home = Home(root.expanduser().absolute())
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (home.secrets, home.store, home.run, home.logs, home.workspaces):
            directory.mkdir(mode=0o700, exist_ok=True)
            directory.chmod(0o700)
        _once(home.id_file, str(uuid.uuid4()))
        for secret in (home.store_password, home.flower_password, home.admin_key):
            _once(secret, secrets.token_urlsafe(32))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidRequest(
            f"cannot use {home.root} as home ({reason}: {error.filename}); name another with --home", field="home"
        ) from None
    return home


def read_secret(path: Path) -> str:
    """The text of a file that :func:`make_home` wrote.

    Raises:
        NotFound: it is not there.
    """
    try:
        text = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{path} does not exist; start hermes-tasks up on this home first") from None
    except OSError as error:
        raise NotFound(f"cannot read {path} ({error.strerror}); check who owns it") from None
    if not text:
        raise NotFound(f"{path} is empty; remove it and start hermes-tasks up again")
    return text


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` by ``text``, mode 0600, whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    part.replace(path)


def _once(path: Path, text: str) -> None:
    """Write ``text`` unless the file holds something; of two processes at once, one wins and both read its text."""
    if path.exists() and path.stat().st_size > 0:
        path.chmod(0o600)
        return
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
    try:
        if path.exists():
            path.unlink()  # empty: what a full disk left behind
        os.link(part, path)
    except FileExistsError:
        return
    finally:
        part.unlink()
