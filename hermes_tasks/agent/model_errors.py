"""What a provider's refusal means: status and error object in, one of our errors out, never with a key in its text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    ContextTooLong,
    HermesTasksError,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
)

#: How much of the provider's own words goes into our message.
SAID_CHARS: Final = 300
LONGEST_WAIT: Final = timedelta(days=1)

_CONTEXT: Final = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|(input|prompt|request)( \w+)? (is )?too (long|large)"
    r"|too many (input )?tokens|reduce the length|exceeds?( the)? (maximum|available|model's)[^.]{0,40}(token|context)"
    r"|string_above_max_length",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"rate[ _-]?limit|too many requests|insufficient_quota|quota", re.IGNORECASE)
_KEY: Final = re.compile(r"invalid_api_key|authentication|unauthorized|permission|incorrect api key", re.IGNORECASE)
_SECRET: Final = re.compile(r"(?i)\bbearer\s+\S+|\b(?:sk|key|gsk|xai|pk)-[\w*.-]{6,}")
_AGAIN: Final = frozenset({408, 409, 425})
_REMEDY: Final[Mapping[int, str]] = {
    401: "check {setting}.api_key",
    402: "the account behind {setting}.api_key has no credit left",
    403: "the key in {setting}.api_key may not use this model from here",
    404: "check {setting}.base_url, which usually ends in /v1, and {setting}.model",
}


@dataclass(slots=True)
class Place:
    """Which model at which endpoint, for messages.

    Attributes:
        name: the name under ``models`` in the settings.
        model: the provider's name for it.
        host: of the endpoint.
        key: only so that it can be removed from what the provider says; known once it has been read.
    """

    name: str
    model: str
    host: str
    key: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"model {self.name!r} ({self.model} at {self.host})"

    def unavailable(self, why: str) -> ModelUnavailable:
        """It is down or broke off; trying again may help."""
        return ModelUnavailable(f"{self} {why}; it may work again later")

    def no_completion(self, why: str) -> BadModelAnswer:
        """It answered, but not as a chat-completions endpoint does."""
        said = self.clean(why)
        return BadModelAnswer(
            f"{self} did not answer as a chat-completions endpoint: {said}; check models.{self.name}.base_url"
        )

    def refusal(self, status: int, said: str) -> ModelRefused:
        """It refused the key, the model's name or the request."""
        remedy = _REMEDY.get(status, "the request does not suit this model; see what it says")
        what = f"refused (HTTP {status}): {remedy.format(setting=f'models.{self.name}')}"
        return ModelRefused(f"{self} {what}{_quoted(said)}", status=status)

    def clean(self, text: str) -> str:
        """``text`` on one line, short, and without the key."""
        if self.key:
            text = text.replace(self.key, "[key]")
        text = " ".join(_SECRET.sub("[key]", text).split())
        return text if len(text) <= SAID_CHARS else text[: SAID_CHARS - 1] + "…"


def from_status(place: Place, status: int, headers: Mapping[str, str], body: str, now: datetime) -> HermesTasksError:
    """The error for an HTTP status other than 2xx. ``headers`` has lower-case names."""
    said, codes = _read(body)
    said = place.clean(said)
    if 300 <= status < 400:
        where = headers.get("location", "")[:200]
        return ModelRefused(
            f"{place} redirects (HTTP {status}) to {where!r}: set models.{place.name}.base_url to the final address",
            status=status,
        )
    if status == 429:
        return _rate_limited(place, said, retry_after(headers, now))
    if status not in (401, 402, 403, 404) and _CONTEXT.search(" ".join((*codes, said))):
        return ContextTooLong(f"{place}: the conversation does not fit its context window{_quoted(said)}")
    if status == 413:
        return ContextTooLong(f"{place}: the request is too large for it (HTTP 413){_quoted(said)}")
    if status >= 500 or status in _AGAIN:
        return place.unavailable(f"answered HTTP {status}{_quoted(said)}")
    return place.refusal(status, said)


def from_event(place: Place, error: object, now: datetime) -> HermesTasksError:
    """The error for an ``error`` object inside a stream or a body that came with status 200."""
    body = json.dumps({"error": error})
    said, codes = _read(body)
    status = next((int(code) for code in codes if re.fullmatch("[45][0-9][0-9]", code)), 0)
    if status:
        return from_status(place, status, {}, body, now)
    text, said = " ".join((*codes, said)), place.clean(said)
    if _CONTEXT.search(text):
        return ContextTooLong(f"{place}: the conversation does not fit its context window{_quoted(said)}")
    if _RATE.search(text):
        return _rate_limited(place, said, None)
    if _KEY.search(text):
        return place.refusal(401, said)
    if "invalid_request" in text:
        return place.refusal(400, said)
    return place.unavailable(f"broke off with an error{_quoted(said)}")


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How long ``retry-after-ms`` or ``retry-after`` (seconds or a date) asks to wait; None = not said legibly."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return timedelta(seconds=min(max(seconds, 0.0), LONGEST_WAIT.total_seconds()))
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        wait = moment - now
    except (ValueError, TypeError):
        return None
    return min(max(wait, timedelta()), LONGEST_WAIT)


def _rate_limited(place: Place, said: str, wait: timedelta | None) -> RateLimited:
    asked = f", for {wait.total_seconds():g} s" if wait is not None else ""
    text = f"{place} asked us to slow down (HTTP 429){asked}{_quoted(said)}"
    return RateLimited(text, retry_after=wait, model=place.name)


def _quoted(said: str) -> str:
    return f": it says {said!r}" if said else ""


def _read(body: str) -> tuple[str, list[str]]:
    """Message and codes of an error body in any of the usual forms."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ("" if body.lstrip()[:1] == "<" else body), []
    error = data.get("error", data) if isinstance(data, Mapping) else data
    if not isinstance(error, Mapping):
        return str(error or ""), []
    said = error.get("message") or error.get("detail") or error.get("msg") or ""
    codes = [str(error[key]) for key in ("code", "type") if error.get(key) is not None]
    return said if isinstance(said, str) else json.dumps(said), codes
