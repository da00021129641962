"""Waiting in tests: for a condition, with a deadline, never for a length of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, TypeVar

T = TypeVar("T")

_POLL_S: Final = 0.005


async def eventually(condition: Callable[[], T | Awaitable[T]], deadline: float = 5.0, what: str = "") -> T:
    """Ask ``condition`` until its answer is true, and return that answer.

    Args:
        condition: a plain or async function without side effects that matter; asked at least once.
        deadline: seconds.
        what: said when it did not happen.

    Raises:
        AssertionError: it was not true within the deadline; the last answer is in the text.
    """
    until = time.monotonic() + deadline
    while True:
        answer = condition()
        found = await answer if isawaitable(answer) else answer
        if found:
            return found
        if time.monotonic() >= until:
            raise AssertionError(f"not within {deadline} s: {what or condition}; last answer {found!r}")
        await asyncio.sleep(_POLL_S)
