"""What happens to every request: its body is bounded, its answer gets safe headers, and one line is logged."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes_tasks.contracts.ids import NAME
from hermes_tasks.front.errors import error_answer, too_large
from hermes_tasks.observe.logging import get_logger

_LOG: Final = get_logger("hermes_tasks.front.access")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")


class Gate:
    """The outermost ASGI layer.

    Args:
        max_body_bytes: a longer body is refused with 413, whether or not its length was announced.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app, self._max = app, max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                headers.extend(_HEADERS)
                if not any(name.lower() == _NO_STORE[0] for name, _ in headers):
                    headers.append(_NO_STORE)
            await send(message)

        try:
            if _announced(scope) > self._max:
                fault = too_large(self._text(), "body")
                await error_answer(413, fault.kind, str(fault.detail), "body")(scope, receive, sending)
            else:
                await self._app(scope, self._bounded(receive), sending)
        finally:
            _log(scope, status, time.monotonic() - began)

    def _bounded(self, receive: Receive) -> Receive:
        total = 0

        async def receiving() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self._max:
                raise too_large(self._text(), "body")
            return message

        return receiving

    def _text(self) -> str:
        return f"the body is larger than {self._max} bytes (front.max_body_bytes); send less"


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _log(scope: Scope, status: int, seconds: float) -> None:
    """Route and ids only: what people write stands in bodies and queries, and neither is logged."""
    route = getattr(scope.get("route"), "path", "(none)")
    state: MutableMapping[str, Any] = scope.get("state") or {}
    ids = {
        name: value
        for name, value in scope.get("path_params", {}).items()
        if isinstance(value, str) and NAME.fullmatch(value)
    }
    _LOG.info(
        "request", method=scope["method"], route=route, status=status, duration_ms=round(seconds * 1000, 1),
        user=state.get("user", ""), **ids,
    )  # fmt: skip
