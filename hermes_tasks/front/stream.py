"""The event stream of a session as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hermes_tasks.contracts.errors import HermesTasksError, InvalidRequest, NotFound
from hermes_tasks.front.resync import order, resync, turn_events
from hermes_tasks.front.services import FrontServices
from hermes_tasks.front.shown import event_shown
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.events import STREAM_ID, Event

_LOG: Final = get_logger("hermes_tasks.front.stream")
_ALIVE: Final = b": alive\n\n"
_LEAVING: Final = b": this front stops; connect again\n\n"
_RETRY_MS: Final = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader begins: events to give first, and the id after which the others follow."""

    after: str
    first: tuple[Event, ...] = ()


def checked_event_id(value: str | None) -> str | None:
    """Return ``value`` if it is None or can be the id of an event.

    Raises:
        InvalidRequest: it cannot.
    """
    if value is None or STREAM_ID.fullmatch(value):
        return value
    raise InvalidRequest(
        "the last event id must be two numbers with a dash between them, as sent with each event",
        field="last_event_id",
    )


async def find_start(services: FrontServices, user: str, session: str, last: str | None) -> Start:
    """Where to begin for a reader whose last event was ``last`` (None = a new reader).

    A new reader begins with the open turn, or with what comes next. One whose place is no longer kept, or is not of
    this stream (the store came back without its last events), begins with a ``resync``.

    Raises:
        NotFound: there is no such session of this user.
    """
    newest = await services.events.newest(user, session)  # before the record: a turn that begins meanwhile follows
    record = await services.sessions.get(user, session)
    if last is not None:
        if order(last) <= order(newest) and await services.events.kept_since(user, session, last):
            return Start(last)
        return await _resynced(services, user, session, newest)
    if not record.get("open"):
        return Start(newest)
    try:
        run = await services.runs.get(user, record["open"])
    except NotFound:
        return Start(newest)
    async with aclosing(turn_events(services, user, session, run, newest)) as events:
        async for event in events:
            return Start(event.id, (event,))
    return await _resynced(services, user, session, newest)


async def _resynced(services: FrontServices, user: str, session: str, newest: str) -> Start:
    return Start(newest, (await resync(services, user, session, newest),))


async def frames(
    services: FrontServices, user: str, session: str, start: Start, stopping: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """The stream's bytes, until the reader leaves, the front stops, or the store breaks off.

    The first frame carries an id and no event, so that every reader has a place to come back to.
    """
    yield f"retry: {_RETRY_MS}\nid: {start.after}\n\n".encode()
    for event in start.first:
        yield frame(event)
    follow = services.events.follow(user, session, start.after)
    async with aclosing(until(stopping, follow, session)) as events:
        async for event_or_none in events:
            yield _ALIVE if event_or_none is None else frame(event_or_none)
    yield _LEAVING


def frame(event: Event) -> bytes:
    """One event. The JSON is ASCII: no reader can take a character of a text for the end of a line."""
    data = json.dumps(event_shown(event), separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.type}\ndata: {data}\n\n".encode()


async def until(stopping: asyncio.Event, source: AsyncGenerator[T, None], session: str) -> AsyncGenerator[T, None]:
    """The items of ``source`` until ``stopping`` is set or it fails; a failure is logged and ends the stream.

    The reader then comes back with its last id, and meets the store's error or its return.
    """
    stop = asyncio.create_task(stopping.wait())
    item: asyncio.Task[T] | None = None
    try:
        while not stopping.is_set():
            item = asyncio.create_task(_next(source))
            await asyncio.wait({item, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                return
            error = item.exception()
            if isinstance(error, StopAsyncIteration):
                return
            if error is not None:
                traced = None if isinstance(error, HermesTasksError) else error
                _LOG.warning("an event stream broke off", session=session, error=str(error), exc_info=traced)
                return
            yield item.result()
    finally:
        stop.cancel()
        if item is not None and not item.done():
            item.cancel()  # the source is waiting in there, and cleans up as it is cancelled
        else:
            await source.aclose()


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


class EventStream(StreamingResponse):
    """A response that closes its source when the reader leaves, however it leaves."""

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        super().__init__(
            content, media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        self._source = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._source.aclose()
