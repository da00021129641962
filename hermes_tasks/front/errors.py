"""One shape for every error: ``{"error": {"type", "message", "field"}}``."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from hermes_tasks.contracts.errors import (
    Conflict,
    HermesTasksError,
    InvalidRequest,
    NotFound,
    Retryable,
    StoreFull,
    StoreUnavailable,
)

#: class → (HTTP status, type, Retry-After in seconds); the first that fits decides.
_TABLE: Final[tuple[tuple[type[HermesTasksError], int, str, int | None], ...]] = (
    (NotFound, 404, "not_found", None),
    (Conflict, 409, "conflict", None),
    (InvalidRequest, 400, "invalid_request", None),
    (StoreFull, 503, "store_full", 5),
    (StoreUnavailable, 503, "store_unavailable", 1),
    (Retryable, 503, "unavailable", 1),
    (HermesTasksError, 500, "internal", None),
)
#: status → (type, message) of the framework's own answers.
_FRAMEWORK: Final = {
    404: ("not_found", "there is nothing at this path; check it"),
    405: ("method_not_allowed", "this path does not take that method"),
}
_SHOWN_CHARS: Final = 500


class Refused(HTTPException):
    """An answer that only HTTP has a word for: no key (401), not allowed (403), too large (413)."""

    def __init__(self, status: int, kind: str, message: str, *, field: str | None = None) -> None:
        super().__init__(status, message, {"WWW-Authenticate": "Bearer"} if status == 401 else None)
        self.kind, self.field = kind, field


def too_large(message: str, field: str) -> Refused:
    """413: what was sent is over a limit that the message names."""
    return Refused(413, "too_large", message, field=field)


def error_answer(
    status: int, kind: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """An error in the one shape."""
    body = {"error": {"type": kind, "message": message, "field": field}}
    return JSONResponse(body, status_code=status, headers=headers)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error of the app answer in the one shape."""
    app.add_exception_handler(HermesTasksError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _http)
    app.add_exception_handler(Exception, _internal)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    _, status, kind, wait = next(row for row in _TABLE if isinstance(error, row[0]))
    field = error.field if isinstance(error, InvalidRequest) else None
    return error_answer(status, kind, str(error), field, {"Retry-After": str(wait)} if wait else None)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """What did not fit, by name; never the value, which may be a user's text."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    told = []
    for fault in faults:
        path = [str(part) for part in fault["loc"] if part not in ("body", "query", "path", "header")]
        told.append((".".join(path), str(fault["msg"]).removeprefix("Value error, ")))
    message = "; ".join(f"{field}: {text}" if field else text for field, text in told)[:_SHOWN_CHARS]
    return error_answer(400, "invalid_request", message, (told[0][0] or "body") if told else None)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, Refused):
        return error_answer(error.status_code, error.kind, str(error.detail), error.field, dict(error.headers or {}))
    if not isinstance(error, StarletteHTTPException):
        return await _internal(_request, error)
    kind, message = _FRAMEWORK.get(error.status_code, ("invalid_request", str(error.detail)))
    return error_answer(error.status_code, kind, message, headers=dict(error.headers or {}))


async def _internal(_request: Request, _error: Exception) -> JSONResponse:
    """A fault of ours. The framework raises it again after this answer, so the server's log has the whole story."""
    return error_answer(500, "internal", "the front failed at this request; its log says why")
