"""Requests to the front, and its answers as values or as the project's own errors."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import httpx

from hermes_tasks.contracts.errors import (
    Conflict,
    HermesTasksError,
    InvalidRequest,
    NotFound,
    Retryable,
    StoreFull,
    StoreUnavailable,
)

_ERRORS: Final[dict[str, type[HermesTasksError]]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "store_full": StoreFull,
    "store_unavailable": StoreUnavailable,
    "unavailable": Retryable,
    "internal": HermesTasksError,
}
_SHOWN_CHARS: Final = 300


def make_http(base_url: str, key: str, timeout: timedelta) -> httpx.AsyncClient:
    """A client of one front. Proxies and credentials of the environment are not used.

    Raises:
        InvalidRequest: ``base_url`` or ``key`` cannot be used.
    """
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidRequest("the key should be one word of printable ASCII; check the key file", field="key")
    try:
        parts, url = urlsplit(base_url), httpx.URL(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        fits = False
    if not fits:
        raise InvalidRequest(f"{base_url!r} should be a URL of the form http://host:port", field="url")
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=httpx.Timeout(timeout.total_seconds(), connect=5.0),
        trust_env=False,
        follow_redirects=False,
    )


def segment(name: str) -> str:
    """``name`` as one segment of a path.

    Raises:
        NotFound: nothing can have that id: it is empty, has a slash, or is no text.
    """
    try:
        if name not in ("", ".", "..") and "/" not in name:
            return quote(name, safe="")
    except UnicodeEncodeError:
        pass
    raise NotFound(f"there is nothing with the id {name[:80]!r}; an id is not empty and has no slash")


def unreachable(http: httpx.AsyncClient, error: httpx.HTTPError) -> Retryable:
    """The error for a front that does not answer at all."""
    reason = str(error) or type(error).__name__
    return Retryable(f"no answer from {http.base_url} ({reason}); is hermes-tasks up running there?")


async def ask_front(http: httpx.AsyncClient, method: str, path: str, **request: Any) -> dict[str, Any]:
    """One request; the JSON object of its answer.

    Raises:
        InvalidRequest: what is sent is no text.
        Retryable: nothing answers there, or it has no room or no store now.
        HermesTasksError: any other error of the front, as the class its type names.
    """
    try:
        response = await http.request(method, path, **request)
    except httpx.HTTPError as error:
        raise unreachable(http, error) from None
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"what is to be sent is no {error.encoding} text ({error.reason}); mend it") from None
    if not response.is_success:
        raise error_of(http, response.status_code, response.content)
    answer = _object(response.content)
    if answer is None:
        raise _stranger(http, response.status_code)
    return answer


def error_of(http: httpx.AsyncClient, status: int, body: bytes) -> HermesTasksError:
    """The error that an answer other than 2xx stands for."""
    error = (_object(body) or {}).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        # What stands between us and the front (a proxy, a load balancer) says this while the front restarts.
        return unavailable if (unavailable := _gateway(http, status)) else _stranger(http, status)
    text = " ".join(error["message"].split())[:_SHOWN_CHARS]
    kind = _ERRORS.get(str(error.get("type")), InvalidRequest if status < 500 else HermesTasksError)
    if issubclass(kind, InvalidRequest):
        return kind(text, field=cast("str | None", error.get("field")))
    return kind(text)


def _gateway(http: httpx.AsyncClient, status: int) -> Retryable | None:
    if status in (502, 503, 504):
        return Retryable(f"{http.base_url} is not available now (HTTP {status}); try again later")
    return None


def _stranger(http: httpx.AsyncClient, status: int) -> InvalidRequest:
    return InvalidRequest(
        f"what answers at {http.base_url} (HTTP {status}) is not Hermes Tasks; check the URL", field="url"
    )


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
