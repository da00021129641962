"""The event stream over real HTTP: where it begins, how it goes on, and how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from hermes_tasks.client import Event, StepText
from hermes_tasks.client.sse import EventParser
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import NewRun
from hermes_tasks.contracts.steps import ModelStep, StartedStep, ToolCall
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.front_stack import POLICY, answer, front, opened, posted, say

pytestmark = pytest.mark.anyio
BLOCK = "Before.\n<memory-context>\nSECRET-RECALL-71\n</memory-context>\nAfter."


class Reader:
    """One open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.parser = response, EventParser()
        self.raw = b""
        self._chunks = response.aiter_bytes()
        self._ready: list[Event] = []

    async def next(self) -> Event:
        async with asyncio.timeout(10):
            while not self._ready:
                await self._read()
        return self._ready.pop(0)

    async def until(self, type: str) -> list[Event]:
        events = [await self.next()]
        while events[-1].type != type:
            events.append(await self.next())
        return events

    async def place(self) -> str:
        """The id of the first frame."""
        async with asyncio.timeout(10):
            while not self.parser.last_id:
                await self._read()
        return self.parser.last_id

    async def rest(self) -> None:
        """Read to the end of the stream."""
        async with asyncio.timeout(10):
            async for chunk in self._chunks:
                self.raw += chunk

    async def _read(self) -> None:
        chunk = await anext(self._chunks)
        self.raw += chunk
        self._ready += self.parser.feed(chunk)


@asynccontextmanager
async def reading(client: httpx.AsyncClient, session: str, last: str | None = None) -> AsyncIterator[Reader]:
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(response)


def told(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.type == "text")


async def test_a_new_reader_sees_what_comes_next(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        await posted(ada, session, "before you came")
        await eventually(lambda: not stack.turns)
        async with reading(ada, session) as reader:
            message = await posted(ada, session, "line one\nline two\u2028\x85 é")
            events = await reader.until("turn.ended")
        assert [event.type for event in events] == ["turn.started", "text", "text", "turn.ended"]
        assert {event.data["run"] for event in events} == {message}
        assert told(events) == "You said: line one\nline two\u2028\x85 é" == events[-1].data["text"]
        assert events[-1].data["state"] == "completed"
        assert len({event.id for event in events}) == 4


async def test_a_new_reader_begins_with_the_open_turn(store_url: str) -> None:
    go_on = asyncio.Event()

    async def slow(journal: StoreJournal) -> None:
        await say(journal, "Hel", "lo")
        await go_on.wait()
        await answer(journal, "Hello")

    async with front(store_url, play=slow) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        go_on.set()
        await posted(ada, session, "an earlier turn")
        await eventually(lambda: not stack.turns)
        go_on.clear()
        message = await posted(ada, session, "hi")
        await eventually(lambda: len(stack.begun) == 2)
        async with reading(ada, session) as first, reading(ada, session) as second:
            for reader in (first, second):
                started = await reader.next()
                assert (started.type, started.data["run"]) == ("turn.started", message)
                assert told([await reader.next(), await reader.next()]) == "Hello"
            go_on.set()
            for reader in (first, second):
                assert (await reader.next()).type == "turn.ended"


async def test_a_reader_goes_on_where_it_was(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        async with reading(ada, session) as reader:
            await posted(ada, session, "hello")
            events = await reader.until("turn.ended")
        async with reading(ada, session, last=events[1].id) as reader:
            rest = await reader.until("turn.ended")
        assert [event.id for event in rest] == [event.id for event in events[2:]]
        by_query = ada.stream("GET", f"/v1/sessions/{session}/events", params={"last_event_id": events[1].id})
        async with by_query as response:
            assert (await Reader(response).next()).id == events[2].id


async def test_a_reader_whose_place_is_gone_gets_a_resync(store_url: str) -> None:
    hold = asyncio.Event()

    async def open_turn(journal: StoreJournal) -> None:
        if journal.record.spec["text"] == "first":
            await answer(journal, BLOCK)
            return
        calls = (ToolCall(id="c", name="delegate_task", arguments="{}"),)
        await say(journal, "Let me ", "look.")
        await journal.append(ModelStep(text="Let me look.", calls=calls, finish="tool_calls"))
        child = NewRun(id="kid", kind=RunKind.CHILD, user="ada", session=journal.record.session, policy=POLICY,
                       parent=journal.record.id, batch="b", spec={"goal": "find it"})  # fmt: skip
        async with journal.slot(0, "delegate_task") as slot:
            step = slot.started("b")
            assert isinstance(step, StartedStep)
            await stack.services.runs.create_batch(slot.guard, step, step.batch or "", 0, [child])
            slot.written()
        await say(journal, "Found", " it", step=2)
        await hold.wait()
        await answer(journal, "Found it.")

    async with front(store_url, play=open_turn) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        await posted(ada, session, "first")
        await eventually(lambda: not stack.turns)
        message = await posted(ada, session, "second")
        async with reading(ada, session) as reader:
            while told(await reader.until("text")) != " it":
                pass
            newest = reader.parser.last_id
        async with reading(ada, session, last="5-0") as reader:
            resync = await reader.next()
            assert (resync.type, resync.id) == (EventType.RESYNC, newest)
            [turn] = resync.data["history"]
            assert (turn["user"], turn["assistant"]) == ("first", "Before.\n\nAfter.")
            now = resync.data["open"]
            assert (now["run"], now["turn"], now["user"], now["state"]) == (message, 2, "second", "running")
            assert now["steps"] == [
                asdict(StepText(0, 0, "Let me look.", done=True)),
                asdict(StepText(2, 1, "Found it", done=False)),
            ]
            assert now["children"] == [
                {"run": "kid", "batch": "b", "index": 0, "goal": "find it", "state": "queued"}
            ]  # fmt: skip
            hold.set()
            assert (await reader.next()).type == "turn.ended"
        shown = (await ada.get(f"/v1/runs/{message}")).json()
        assert [(child["run"], child["parent"], child["goal"]) for child in shown["children"]] == [
            ("kid", message, "find it")
        ]


async def test_a_place_the_store_no_longer_knows_gets_a_resync(store_url: str) -> None:
    """The store came back from a truncated log: the reader has seen more than there is."""
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        await posted(ada, session, "hello")
        await eventually(lambda: not stack.turns)
        async with reading(ada, session, last="99999999999999-0") as reader:
            event = await reader.next()
        assert event.type == EventType.RESYNC
        assert [turn["user"] for turn in event.data["history"]] == ["hello"]
        assert event.data["open"] is None


async def test_an_open_turn_whose_beginning_is_trimmed_gets_a_resync(store_url: str) -> None:
    async with front(store_url, play=None) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        message = await posted(ada, session, "long")
        stack.play = lambda journal: say(journal, "one", "two", "three")
        stack.take("ada", message)
        await eventually(lambda: not stack.turns)
        await stack.services.store.read(("XTRIM", f"ht:{{u:ada}}:ev:{session}", "MAXLEN", 1))
        async with reading(ada, session) as reader:
            event = await reader.next()
        assert (event.type, event.data["open"]["run"]) == (EventType.RESYNC, message)
        assert event.data["open"]["steps"] == []  # its beginning is not known, so none of it is shown


async def test_a_malformed_id_is_refused(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for last in ("", "0", "x", "1-", "-1", "1-2-3", "1.5-0", "9" * 40 + "-0", "$", "é"):
            refused = await ada.get(f"/v1/sessions/{session}/events", params={"last_event_id": last})
            assert (refused.status_code, refused.json()["error"]["field"]) == (400, "last_event_id"), last


async def test_internal_tags_are_in_no_event(store_url: str) -> None:
    async def leak(journal: StoreJournal) -> None:
        await answer(journal, BLOCK)

    async with front(store_url, play=leak) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        async with reading(ada, session) as reader:
            await posted(ada, session, "what do you know?")
            events = await reader.until("turn.ended")
            assert events[-1].data["text"] == "Before.\n\nAfter."
            assert b"SECRET" not in reader.raw
            assert b"memory-context" not in reader.raw


async def test_pieces_of_text_pass_unchanged(store_url: str) -> None:
    """They were scrubbed as one stream when they were made; piece by piece, talk about the tag would be eaten."""
    pieces = ("The fence is called ", "<memory-context>\n", "and is stripped. Bye.")

    async def talk(journal: StoreJournal) -> None:
        await say(journal, *pieces)
        await answer(journal, "".join(pieces))

    async with front(store_url, play=talk) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        async with reading(ada, session) as reader:
            await posted(ada, session, "tell me")
            events = await reader.until("turn.ended")
        assert told(events) == "".join(pieces) == events[-1].data["text"]


async def test_streams_do_not_hold_up_the_end(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        async with reading(ada, session) as one, reading(ada, session) as two:
            await one.place()
            await two.place()
            began = time.monotonic()
            await asyncio.gather(stack.stop(), one.rest(), two.rest())
            assert time.monotonic() - began < 3
            assert one.raw.endswith(b"\n\n")


async def test_readers_who_left_leave_nothing_behind(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for _ in range(3):
            async with reading(ada, session) as reader:
                await reader.place()
                await posted(ada, session, "hello")
                await reader.until("turn.ended")
                assert stack.services.events._waiters
            await eventually(lambda: not stack.services.events._waiters)
        assert stack.services.events._seen == {}


async def test_a_stream_breaks_off_cleanly_with_its_store(store_server: EmbeddedServer, store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada", timeout=20) as ada:
        session = await opened(ada)
        async with reading(ada, session) as reader:
            place = await reader.place()
            store_server.kill()
            await reader.rest()
        refused = await ada.get(f"/v1/sessions/{session}/events", headers={"Last-Event-ID": place})
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "store_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert (await ada.get("/healthz")).status_code == 503
        store_server.start()

        async def well() -> bool:
            return (await ada.get("/healthz")).status_code == 200

        await eventually(well)
        async with reading(ada, session) as reader:
            await posted(ada, session, "are you back?")
            assert (await reader.until("turn.ended"))[-1].data["text"] == "You said: are you back?"


async def test_signs_of_life_are_comments(store_url: str) -> None:
    """A reader that gets a None from the store's stream is sent a comment, which parsers pass over."""
    from hermes_tasks.front.stream import Start, frames  # noqa: PLC0415 - only this test looks inside

    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)

        class Quiet:
            async def follow(self, user: str, session: str, last: str) -> Any:
                yield None

        object.__setattr__(stack.services, "events", Quiet())
        sent = [frame async for frame in frames(stack.services, "ada", session, Start("7-0"), asyncio.Event())]
        parser = EventParser()
        assert [event for frame in sent for event in parser.feed(frame)] == []
        assert sent[1].startswith(b":")
        assert parser.last_id == "7-0"
