"""The events of one HTTP answer, with what can go wrong while it arrives told apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

import aiohttp
import httpx2

from hermes_tasks.agent.model_answer import Answer
from hermes_tasks.agent.model_errors import Place
from hermes_tasks.agent.model_sse import BrokenStream, EndlessStream, EventReader
from hermes_tasks.contracts.errors import BadModelAnswer, ModelUnavailable

#: What the transport raises when a connection breaks; some of aiohttp's errors come through the SDK as they are.
BROKEN: Final = (httpx2.RequestError, aiohttp.ClientError, OSError)
#: How long the bytes after ``[DONE]`` are waited for; reading them lets the connection be used again.
_DRAIN_S: Final = 0.2


async def events(place: Place, response: httpx2.Response, answer: Answer) -> AsyncGenerator[dict[str, Any]]:
    """The JSON events of ``response``, or its one JSON body from a server that does not stream.

    The caller feeds them to ``answer``, which is how a break before, inside and after the answer are told apart:
    what breaks after a finish reason no longer matters.

    Raises:
        ModelUnavailable: the stream broke off, or ended inside an event.
        BadModelAnswer: it is no chat completion at all, or it never ends.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        raise place.no_completion("it sent a web page")
    try:
        if kind == "application/json":
            yield await _body(response)
        else:
            async with aclosing(_streamed(response)) as streamed:
                async for event in streamed:
                    yield event
    except BrokenStream as error:
        if not answer.finish:
            raise _fault(place, error, answer) from error
    except BROKEN as error:
        if not answer.finish:
            raise place.unavailable(
                f"broke its answer off ({place.clean(str(error) or type(error).__name__)})"
            ) from error
    if not answer.begun:
        raise place.no_completion("there is no choice in what it sent")


async def _streamed(response: httpx2.Response) -> AsyncGenerator[dict[str, Any]]:
    reader = EventReader()
    received = response.aiter_bytes()
    async for data in received:
        for event in reader.feed(data):
            yield event
        await asyncio.sleep(0)  # what is buffered already comes without waiting: let the other runs have their turn
        if reader.done:
            with suppress(TimeoutError, *BROKEN):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in received:
                        pass
            return
    for event in reader.end():
        yield event


async def _body(response: httpx2.Response) -> dict[str, Any]:
    reader = EventReader()
    parts = []
    async for data in response.aiter_bytes():
        reader.count(data)
        parts.append(data)
    try:
        body = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise BrokenStream("it sent a body that is not JSON") from error
    if not isinstance(body, dict):
        raise BrokenStream("it sent a body that is not a JSON object")
    return body


def _fault(place: Place, error: BrokenStream, answer: Answer) -> ModelUnavailable | BadModelAnswer:
    if answer.begun and not isinstance(error, EndlessStream):
        return place.unavailable(f"broke its answer off: {place.clean(str(error))}")
    return place.no_completion(str(error))
