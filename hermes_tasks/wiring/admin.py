"""What the command line does on the store directly: users and keys, before any front runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_tasks.contracts.errors import Conflict, HermesTasksError
from hermes_tasks.settings import Settings
from hermes_tasks.store.home_files import read_secret, write_private
from hermes_tasks.wiring.base import Base, make_base


@asynccontextmanager
async def open_admin(settings: Settings) -> AsyncIterator[Base]:
    """The records of the installation that ``settings`` name.

    Raises:
        StoreUnavailable: its store does not answer.
    """
    base = make_base(settings)
    try:
        await base.check()
        yield base
    finally:
        await base.aclose()


async def store_faults(settings: Settings) -> list[str]:
    """What is wrong with the store, one line each; nothing when it is as it should be."""
    try:
        base = make_base(settings)
        try:
            return await base.store.check()
        finally:
            await base.aclose()
    except HermesTasksError as error:
        return [str(error)]


async def ensure_user(settings: Settings, user: str) -> Path:
    """The file (mode 0600) with a bearer key of that user, who is made if missing. A second call changes nothing.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    path = settings.paths.user_key(user)
    async with open_admin(settings) as base:
        if path.exists() and await base.users.of_key(read_secret(path)) == user:
            return path
        try:
            key = await base.users.add(user)
        except Conflict:
            key = await base.users.new_key(user)
        write_private(path, key + "\n")
    return path
