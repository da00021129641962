"""Event streams: many readers through one connection, nothing missed, and told when something is no longer kept."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from hermes_tasks.store.events import Event
from hermes_tasks.store.keys import user_key
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import DONE, USER, World

pytestmark = pytest.mark.anyio


class Reader:
    """One client of a stream."""

    def __init__(self, world: World, session: str, last: str = "0-0") -> None:
        self.got: list[Event] = []
        self._stream = world.events.follow(USER, session, last)
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with aclosing(self._stream) as events:
            async for event in events:
                if event is not None:
                    self.got.append(event)

    def texts(self) -> list[str]:
        return [event.data["text"] for event in self.got if event.type == "text"]

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def reading(world: World) -> World:
    """A process that reads events."""
    await world.events.start()
    return world


async def test_what_was_and_what_comes_is_read_in_order(reading: World) -> None:
    session = await reading.session()
    journal = await reading.hold(await reading.say(session))
    await journal.emit([("text", {"text": "a"})])
    reader = Reader(reading, session)
    await eventually(lambda: reader.texts() == ["a"])
    await journal.emit([("text", {"text": "b"}), ("text", {"text": "c"})])
    await journal.finish(DONE)
    await eventually(lambda: reader.got and reader.got[-1].type == "turn.ended")
    assert [event.type for event in reader.got] == ["turn.started", "text", "text", "text", "turn.ended"]
    assert reader.texts() == ["a", "b", "c"]
    late = Reader(reading, session, reader.got[2].id)
    await eventually(lambda: late.got == reader.got[3:])
    for one in (reader, late):
        await one.leave()


async def test_many_readers_share_one_connection(reading: World) -> None:
    sessions = [await reading.session(f"s{n}") for n in range(3)]
    journals = [await reading.hold(await reading.say(session)) for session in sessions]
    readers = [Reader(reading, session) for session in sessions for _ in range(10)]
    await eventually(lambda: all(reader.got for reader in readers))
    for number in range(3):
        for journal in journals:
            await journal.emit([("text", {"text": f"{journal.record.session} {number}"})])
    await eventually(lambda: all(len(reader.texts()) == 3 for reader in readers))
    assert [reader.texts()[-1] for reader in readers] == [f"{session} 2" for session in sessions for _ in range(10)]
    blocked = [line for line in (await _clients(reading)) if line["cmd"] == "xread"]
    assert len(blocked) == 1
    for reader in readers:
        await reader.leave()
    assert (reading.events._waiters, reading.events._seen) == ({}, {}), "nobody is left, nothing is remembered"


async def _clients(world: World) -> list[dict[str, str]]:
    clients: list[dict[str, str]] = await world.command("CLIENT LIST")
    return clients


async def test_a_reader_that_comes_while_others_read_misses_nothing(reading: World) -> None:
    session = await reading.session()
    journal = await reading.hold(await reading.say(session))
    readers = []
    for number in range(10):
        readers.append(Reader(reading, session))
        await journal.emit([("text", {"text": str(number)})])
    await eventually(lambda: all(len(reader.texts()) == 10 for reader in readers))
    assert {tuple(reader.texts()) for reader in readers} == {tuple(map(str, range(10)))}
    for reader in readers:
        await reader.leave()


async def test_whether_everything_since_is_still_kept(world: World) -> None:
    session = await world.session()
    assert not await world.events.kept_since(USER, session, "5-0")
    assert await world.events.newest(USER, session) == "0-0"
    stream = user_key(USER, f"ev:{session}")
    for name in ("10-0", "10-1", "10-10", "20-0"):
        await world.command("XADD", stream, name, "type", "text", "data", "{}")
    assert await world.events.newest(USER, session) == "20-0"
    kept = {
        last: await world.events.kept_since(USER, session, last) for last in ("9-9", "10-0", "10-2", "20-0", "30-0")
    }
    assert kept == {"9-9": False, "10-0": True, "10-2": True, "20-0": True, "30-0": True}
    await world.command("XTRIM", stream, "MINID", "10-10")
    assert not await world.events.kept_since(USER, session, "10-9"), "by number, not by letters: 10-10 comes after 10-9"
    assert await world.events.kept_since(USER, session, "10-10")


async def test_a_stream_is_kept_while_a_turn_is_open_and_an_hour_after(world: World) -> None:
    session = await world.session()
    message = await world.say(session)
    assert await world.on("TTL", f"ev:{session}") == -1
    await world.end(message)
    assert 3500 < await world.on("TTL", f"ev:{session}") <= 3600
    second, third = await world.say(session), await world.say(session)
    assert await world.on("TTL", f"ev:{session}") == -1
    await world.end(second)
    assert await world.on("TTL", f"ev:{session}") == -1, "the next turn is open"
    await world.end(third)
    assert await world.on("TTL", f"ev:{session}") > 0


async def test_a_stream_is_bounded(world: World) -> None:
    session = await world.session()
    journal = await world.hold(await world.say(session))
    for _ in range(12):
        await journal.emit([("text", {"text": "x"})] * 500)
    assert 5000 <= await world.on("XLEN", f"ev:{session}") < 5300


async def test_readers_go_on_when_the_store_is_back(reading: World, store_server: EmbeddedServer) -> None:
    session = await reading.session()
    journal = await reading.hold(await reading.say(session))
    reader = Reader(reading, session)
    await eventually(lambda: reader.got)
    await reading.written()
    store_server.kill()
    store_server.start()
    # The reader itself may have met the outage; a client connects again with the last id it saw.
    again = Reader(reading, session, reader.got[-1].id)
    await journal.emit([("text", {"text": "after"})])
    await eventually(lambda: again.texts() == ["after"])
    for one in (reader, again):
        await one.leave()
