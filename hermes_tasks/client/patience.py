"""Waiting for a front that is away: short pauses at first, and an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hermes_tasks.contracts.errors import Retryable, StoreFull

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
T = TypeVar("T")


class Patience:
    """Pauses between tries.

    Args:
        seconds: from the last :meth:`reset` until :meth:`after` gives up.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """It worked until now."""
        self._pause, self._until = _FIRST_PAUSE_S, time.monotonic() + self._seconds

    async def after(self, error: Retryable) -> None:
        """Wait for the next try.

        Raises:
            Retryable: ``error``, when patience has run out.
        """
        if time.monotonic() + self._pause > self._until:
            raise error from None
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)


async def patiently(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """The result of ``call``, repeated while nothing answers for up to ``seconds``; it must be safe to repeat.

    Raises:
        StoreFull: at once: room is not made by asking again.
        Retryable: the last one, when patience has run out.
    """
    waiting = Patience(seconds)
    while True:
        try:
            return await call()
        except StoreFull:
            raise
        except Retryable as error:
            await waiting.after(error)
