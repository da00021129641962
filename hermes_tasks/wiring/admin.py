"""What the command line does on the store directly: users and keys, before any front runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_tasks.settings import Settings
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
