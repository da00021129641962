"""Several pieces of work side by side, failing as one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hermes_tasks.contracts.errors import LeaseLost, RunCancelled


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all side by side and return when all are done.

    Raises:
        The failure of the first that fails, as itself and not inside a group; the others are cancelled and awaited.
        ``LeaseLost`` and ``RunCancelled`` come before any other, since they decide whether anything may be written.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for item in work:
                group.create_task(item)
    except BaseExceptionGroup as failures:
        raise _telling(_leaves(failures)) from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


def _telling(errors: list[BaseException]) -> BaseException:
    return next((error for error in errors if isinstance(error, LeaseLost | RunCancelled)), errors[0])
