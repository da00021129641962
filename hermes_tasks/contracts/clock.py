"""The one place where the time of day is read; everything else is handed a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo


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


def day_in(zone: str, moment: datetime) -> str:
    """The calendar day of that moment in an IANA zone, as ``YYYY-MM-DD``."""
    return moment.astimezone(ZoneInfo(zone)).date().isoformat()


def next_day(zone: str, moment: datetime) -> datetime:
    """When the next calendar day begins there, as an aware moment in that zone."""
    tomorrow = moment.astimezone(ZoneInfo(zone)).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=ZoneInfo(zone))
