"""Frames, ids, and the end of a stream, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from hermes_tasks.client.sse import EventParser
from hermes_tasks.contracts.errors import InvalidRequest, StoreUnavailable
from hermes_tasks.front.stream import checked_event_id, frame, until
from hermes_tasks.store.events import Event

pytestmark = pytest.mark.anyio


class Source:
    """Gives numbers, then waits, fails or ends; knows whether it was closed."""

    def __init__(self, count: int, end: str = "wait") -> None:
        self.count, self.end, self._over = count, end, asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._over.is_set()

    async def over(self) -> None:
        async with asyncio.timeout(5):
            await self._over.wait()

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                yield number
            if self.end == "wait":
                await asyncio.Event().wait()
            if self.end == "fail":
                raise StoreUnavailable("away")
        finally:
            self._over.set()


def test_a_frame_is_ascii_and_one_line_of_data() -> None:
    event = Event("5-0", "text", {"run": "r", "text": "a\nb\r\u2028\x85é\ud83d\ude00"})
    sent = frame(event)
    assert sent.isascii()
    assert sent.count(b"\n") == 4
    [read] = EventParser().feed(sent)
    assert (read.id, read.type, read.data["text"]) == ("5-0", "text", "a\nb\r\u2028\x85é\U0001f600")


@pytest.mark.parametrize("value", [None, "0-0", "1700000000000-12"])
def test_ids_of_events_are_accepted(value: str | None) -> None:
    assert checked_event_id(value) == value


@pytest.mark.parametrize("value", ["", "0", "1-", "1-1 ", "1-1\n", "$", "+", "(1-1", "1" * 16 + "-0"])
def test_other_ids_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match="two numbers"):
        checked_event_id(value)


async def test_it_ends_when_the_front_stops() -> None:
    source, stopping, seen = Source(2), asyncio.Event(), []
    async with asyncio.timeout(5):
        async for item in until(stopping, source.items(), "s"):
            seen.append(item)
            if item == 1:
                stopping.set()
    assert seen == [0, 1]
    assert source.closed


async def test_it_ends_while_it_waits() -> None:
    source, stopping, seen = Source(1), asyncio.Event(), []
    asyncio.get_running_loop().call_later(0.01, stopping.set)
    async with asyncio.timeout(5):
        seen += [item async for item in until(stopping, source.items(), "s")]
    await source.over()
    assert seen == [0]


@pytest.mark.parametrize("end", ["fail", "end"])
async def test_it_ends_with_its_source(end: str) -> None:
    source = Source(3, end)
    assert [item async for item in until(asyncio.Event(), source.items(), "s")] == [0, 1, 2]
    assert source.closed


async def test_a_reader_that_leaves_closes_the_source() -> None:
    source = Source(3)
    stream = until(asyncio.Event(), source.items(), "s")
    assert await anext(stream) == 0
    await stream.aclose()
    assert source.closed


async def test_a_cancelled_reader_closes_the_source() -> None:
    source = Source(0)

    async def read() -> None:
        async for _ in until(asyncio.Event(), source.items(), "s"):
            pass

    task = asyncio.create_task(read())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await source.over()
    assert task.cancelled()
