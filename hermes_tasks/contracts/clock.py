"""The one place where the time of day is read; everything else is handed a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is. Tests hand in one that they move by hand."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """See :class:`Clock`."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC, the unit of every stored time."""
    return int(moment.timestamp() * 1000)


def from_ms(value: int) -> datetime:
    """The aware UTC moment of a stored time."""
    return datetime.fromtimestamp(value / 1000, UTC)
