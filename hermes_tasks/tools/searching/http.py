"""One bounded HTTP request to a search service. Its address is a setting, so it may be private."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import aiohttp

from hermes_tasks.contracts.errors import Permanent, RateLimited, Retryable

_TIMEOUT_S: Final = 15.0
_MAX_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    retry_after: timedelta | None

    def content(self, settings: str) -> bytes:
        """The body of a good answer.

        Args:
            settings: what to check when the request is refused.

        Raises:
            RateLimited, Retryable, Permanent: the answer is none of the good ones.
        """
        if self.status == 429:
            raise RateLimited("asks for fewer requests (429)", retry_after=self.retry_after)
        if self.status >= 500:
            raise Retryable(f"answers {self.status}")
        if self.status != 200:
            raise Permanent(f"answers {self.status}; check {settings}")
        return self.body


async def ask(method: str, url: str, **request: Any) -> Answer:
    """Send one request. Redirects are not followed: a key must not travel to where they lead.

    Raises:
        Retryable: no answer within 15 s.
        Permanent: more than 2 MB.
    """
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.request(method, url, allow_redirects=False, **request) as response,
        ):
            body = bytearray()
            async for piece in response.content.iter_chunked(65_536):
                body += piece
                if len(body) > _MAX_BYTES:
                    raise Permanent(f"sends more than {_MAX_BYTES} bytes for one search")
            return Answer(response.status, bytes(body), _seconds(response.headers.get("Retry-After", "")))
    except TimeoutError:
        raise Retryable(f"does not answer within {_TIMEOUT_S:.0f} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise Retryable(f"does not answer ({type(error).__name__})") from None


def json_object(body: bytes, settings: str) -> Mapping[str, Any]:
    """The JSON object that a service answered.

    Raises:
        Permanent: it is none; ``settings`` are what to check.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Permanent(f"answers something else than results; check {settings}")
    return found


def dicts(value: Any, settings: str) -> list[Mapping[str, Any]]:
    """The objects of a list of results.

    Raises:
        Permanent: it is no list.
    """
    if not isinstance(value, list):
        raise Permanent(f"answers without a list of results; check {settings}")
    return [item for item in value if isinstance(item, dict)]


def _seconds(text: str) -> timedelta | None:
    return timedelta(seconds=int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else None
