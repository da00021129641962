"""When a job fires: one parser, and one computation for what is announced and what is executed.

Two forms: an interval of elapsed time, anchored (so it never drifts), and a one-shot at a moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from hermes_tasks.contracts.clock import from_ms, to_ms
from hermes_tasks.contracts.errors import InvalidRequest

_EVERY: Final = re.compile(r"\s*(?:every\s+)?(\d{1,9})\s*(s|m|h|d)\s*", re.IGNORECASE)
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
#: Longer intervals and farther moments than this are taken for a slip of the keyboard.
_FARTHEST: Final = timedelta(days=366 * 10)
_SHOWN_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule. Either ``every_s`` with its anchor, or ``at_ms``."""

    every_s: int = 0
    anchor_ms: int = 0
    at_ms: int = 0

    def after(self, moment_ms: int) -> int:
        """The first planned time later than ``moment_ms``, or 0 when there is none."""
        if not self.every_s:
            return self.at_ms if self.at_ms > moment_ms else 0
        step = self.every_s * 1000
        passed = max(0, moment_ms - self.anchor_ms) // step
        return self.anchor_ms + (passed + 1) * step

    def between(self, first_ms: int, upto_ms: int) -> int:
        """How many planned times lie after ``first_ms``, up to and including ``upto_ms``."""
        if not self.every_s or upto_ms <= first_ms:
            return 0
        step = self.every_s * 1000
        return (upto_ms - self.anchor_ms) // step - (first_ms - self.anchor_ms) // step

    def wire(self) -> dict[str, Any]:
        """As it is stored."""
        if self.every_s:
            return {"v": 1, "form": "every", "every_s": self.every_s, "anchor_ms": self.anchor_ms}
        return {"v": 1, "form": "at", "at_ms": self.at_ms}

    def words(self, zone: str) -> str:
        """Its meaning, for the person who made it."""
        if self.every_s:
            for unit, name in (("d", "day"), ("h", "hour"), ("m", "minute")):
                count, rest = divmod(self.every_s, _UNIT_S[unit])
                if not rest:
                    return f"every {name}" if count == 1 else f"every {count} {name}s"
            return f"every {self.every_s} seconds"
        return f"once, at {from_ms(self.at_ms).astimezone(ZoneInfo(zone)).isoformat(timespec='seconds')} ({zone})"


def schedule_from(stored: Mapping[str, Any]) -> Schedule:
    """Decode a stored schedule."""
    return Schedule(int(stored.get("every_s", 0)), int(stored.get("anchor_ms", 0)), int(stored.get("at_ms", 0)))


def parse(every: str | None, at: str | None, *, now: datetime, zone: str, min_interval_s: int) -> Schedule:
    """Read the two forms.

    Args:
        every: ``90s``, ``2m``, ``1h`` or ``1d``, also with ``every`` in front.
        at: an ISO moment; without an offset it is in ``zone``.
        min_interval_s: the smallest interval allowed.

    Raises:
        InvalidRequest: neither or both are given, the text does not parse, or the time is not usable.
    """
    if (every is None) == (at is None):
        raise InvalidRequest(
            "give either an interval (every: 2m, 1h, 1d) or a moment (at: 2030-01-31T09:00)", field="schedule"
        )
    if every is not None:
        return Schedule(every_s=_interval(every, min_interval_s), anchor_ms=to_ms(now))
    return Schedule(at_ms=_moment(at or "", now, zone))


def _interval(text: str, least_s: int) -> int:
    found = _EVERY.fullmatch(text)
    if not found:
        raise InvalidRequest(
            f"cannot read the interval {_shown(text)}: use a whole number and s, m, h or d, such as 2m; "
            f"the smallest allowed is {least_s}s",
            field="every",
        )
    seconds = int(found[1]) * _UNIT_S[found[2].lower()]
    if seconds < least_s:
        raise InvalidRequest(
            f"the interval {_shown(text)} is too short: the smallest allowed is {least_s}s", field="every"
        )
    if seconds > _FARTHEST.total_seconds():
        raise InvalidRequest(f"the interval {_shown(text)} is longer than ten years", field="every")
    return seconds


def _moment(text: str, now: datetime, zone: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequest(
            f"cannot read the moment {_shown(text)}: use ISO such as 2030-01-31T09:00", field="at"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    if moment - now > _FARTHEST:
        raise InvalidRequest(f"the moment {_shown(text)} is more than ten years away", field="at")
    # In stored milliseconds: what lies within the present one has passed as well.
    if moment <= now or to_ms(moment) <= to_ms(now):
        local = now.astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
        raise InvalidRequest(f"the moment {_shown(text)} has passed; it is {local} in {zone}", field="at")
    return to_ms(moment)


def _shown(text: str) -> str:
    """What was given, short enough for a message of one line."""
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")
