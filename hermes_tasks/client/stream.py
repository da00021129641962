"""A session's events over as many connections as it takes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Final

import httpx

from hermes_tasks.client.http import error_of, segment, unreachable
from hermes_tasks.client.patience import Patience
from hermes_tasks.client.sse import EventParser
from hermes_tasks.client.words import Event
from hermes_tasks.contracts.errors import InvalidRequest, Retryable

#: The front says something at least every 15 s; a connection that is silent for longer is dead.
_SILENCE_S: Final = 40.0
#: A connection that held this long was a good one; shorter ones use up patience.
_GOOD_S: Final = 2.0


async def follow(
    http: httpx.AsyncClient, session: str, last: str | None, patience_s: float
) -> AsyncGenerator[Event | None, None]:
    """Events after ``last``, for ever, and None each time a connection has just found its place in the stream.

    Raises:
        Retryable: no connection held for ``patience_s``.
        InvalidRequest: what the front refuses, or sends no events.
    """
    waiting = Patience(patience_s)
    while True:
        parser, began = EventParser(), time.monotonic()
        try:
            headers = {} if last is None else {"Last-Event-ID": last}
            async with http.stream(
                "GET", f"/v1/sessions/{segment(session)}/events", headers=headers,
                timeout=httpx.Timeout(_SILENCE_S, connect=5.0),
            ) as response:  # fmt: skip
                if response.status_code != httpx.codes.OK:
                    raise error_of(http, response.status_code, await response.aread())
                yield None
                async for chunk in response.aiter_bytes():
                    for event in parser.feed(chunk):
                        yield event
                    last = parser.last_id or last
            fault = Retryable(f"{http.base_url} closed the event stream of session {session}")
        except httpx.HTTPError as error:
            fault = unreachable(http, error)
        except ValueError as error:
            raise InvalidRequest(f"what {http.base_url} sends is no event stream: {error}", field="url") from None
        except Retryable as error:
            fault = error
        if parser.last_id and time.monotonic() - began > _GOOD_S:
            waiting.reset()
        await waiting.after(fault)
