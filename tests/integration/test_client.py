"""The client against a real front: every method, and an answer through whatever happens to the connection."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from datetime import timedelta

import pytest

from hermes_tasks.client import Client, LiveText
from hermes_tasks.contracts.errors import Conflict, InvalidRequest, NotFound, Retryable, StoreFull
from hermes_tasks.contracts.events import EventType
from hermes_tasks.observe.ports import free_port
from hermes_tasks.settings.sections import FrontSettings
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.testing.waiting import eventually
from tests.integration.front_stack import Stack, answer, echo, front, say

pytestmark = pytest.mark.anyio


async def client_of(stack: Stack, user: str, *, patience_s: float = 20) -> Client:
    return Client(stack.url, await stack.key(user), patience=timedelta(seconds=patience_s))


async def test_ask_returns_the_answer(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session("s-1")
        found = await ada.ask(session, "add milk\u2028and eggs")
        assert found.completed
        assert (found.text, found.turn, found.exit_reason) == ("You said: add milk\u2028and eggs", 1, "completed")
        assert found.error is None
        again = await ada.ask(session, "and tea")
        assert (again.text, again.turn) == ("You said: and tea", 2)
        assert [turn["user"] for turn in await ada.history(session)] == ["add milk\u2028and eggs", "and tea"]


async def test_many_may_ask_at_once(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        answers = await asyncio.gather(*(ada.ask(session, f"number {n}") for n in range(8)))
        assert [answer.text for answer in answers] == [f"You said: number {n}" for n in range(8)]
        assert sorted(answer.turn for answer in answers) == list(range(1, 9))


async def test_the_same_key_is_the_same_answer_however_far_back(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        first = await ada.ask(session, "once", key="k1")
        for n in range(55):
            await ada.send(session, f"later {n}")
            await eventually(lambda: not stack.turns)
        assert await ada.ask(session, "once", key="k1") == first
        with pytest.raises(Conflict, match="k1"):
            await ada.send(session, "other", key="k1")


async def test_ask_survives_a_restart_of_the_front(store_url: str) -> None:
    streaming, go_on = asyncio.Event(), asyncio.Event()

    async def slow(journal: StoreJournal) -> None:
        await say(journal, "Hel")
        streaming.set()
        await go_on.wait()
        await answer(journal, "Hello")

    async with front(store_url, play=slow) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        asking = asyncio.create_task(ada.ask(session, "hi"))
        await streaming.wait()
        await stack.stop()
        go_on.set()  # the turn ends while no front is there
        await eventually(lambda: not stack.turns)
        await stack.restart()
        found = await asyncio.wait_for(asking, 20)
        assert (found.text, found.state) == ("Hello", "completed")
        assert len(await ada.history(session)) == 1


async def test_ask_waits_for_a_front_that_is_not_there_yet(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        await stack.stop()
        asking = asyncio.create_task(ada.ask(session, "hi"))
        with pytest.raises(Retryable, match=r"no answer from http://127\.0\.0\.1"):
            await ada.me()
        await stack.restart()
        assert (await asyncio.wait_for(asking, 20)).text == "You said: hi"


async def test_events_go_on_over_a_restart_without_a_gap_or_a_repeat(store_url: str) -> None:
    go_on = asyncio.Event()

    async def slow(journal: StoreJournal) -> None:
        await say(journal, "one ")
        await go_on.wait()
        await say(journal, "two ")
        await answer(journal, "one two ")

    async with front(store_url, play=slow) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        sent = await ada.send(session, "hi")
        seen, live = [], LiveText(sent.message)
        async with aclosing(ada.events(session)) as events, asyncio.timeout(20):
            async for event in events:
                seen.append(event)
                live.feed(event.type, event.data)
                if event.type == EventType.TEXT and not go_on.is_set():
                    await stack.restart()
                    go_on.set()
                if event.type == EventType.TURN_ENDED:
                    break
        assert [event.type for event in seen] == ["turn.started", "text", "text", "turn.ended"]
        assert live.text == "one two "


async def test_a_gap_is_told_as_a_resync(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        await ada.ask(session, "one")
        async with aclosing(ada.events(session, last="5-0")) as events, asyncio.timeout(10):
            event = await anext(events)
        assert event.type == EventType.RESYNC
        assert [turn["user"] for turn in event.data["history"]] == ["one"]


async def test_an_answer_that_fell_into_a_gap_is_found(store_url: str) -> None:
    """The turn ends, and its events are gone, before the client can read them."""
    async with front(store_url, play=None) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        asking = asyncio.create_task(ada.ask(session, "hi"))
        await eventually(lambda: bool(stack.begun))
        await stack.stop()
        stack.play = echo
        stack.take(*stack.begun[0])
        await eventually(lambda: not stack.turns)
        await stack.services.store.read(("DEL", f"ht:{{u:ada}}:ev:{session}"))
        await stack.restart()
        assert (await asyncio.wait_for(asking, 20)).text == "You said: hi"


async def test_a_message_that_the_store_lost_is_told(store_url: str) -> None:
    async with front(store_url, play=None) as stack, await client_of(stack, "ada") as ada:
        session = await ada.open_session()
        asking = asyncio.create_task(ada.ask(session, "hi"))
        await eventually(lambda: bool(stack.services.events._waiters))
        await stack.stop()
        await stack.services.store.read(
            ("HSET", f"ht:{{u:ada}}:sess:{session}", "open", ""), ("DEL", f"ht:{{u:ada}}:msg:{session}")
        )
        await stack.restart()
        with pytest.raises(NotFound, match="is gone: the store lost its last seconds; send it again"):
            await asyncio.wait_for(asking, 20)


async def test_a_front_that_stays_away_is_given_up(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada", patience_s=0.5) as ada:
        session = await ada.open_session()
        await stack.stop()
        with pytest.raises(Retryable, match="is hermes-tasks up running there"):
            await ada.ask(session, "hi")
        with pytest.raises(Retryable, match="is hermes-tasks up running there"):
            async with aclosing(ada.events(session)) as events:
                await anext(events)


async def test_refusals_come_at_once_and_by_class(store_url: str) -> None:
    settings = FrontSettings(max_message_chars=10, max_waiting_messages=1)
    async with front(store_url, play=None, settings=settings) as stack, await client_of(stack, "ada") as ada:
        with pytest.raises(NotFound, match="no session nowhere"):
            await ada.ask("nowhere", "hi")
        with pytest.raises(NotFound):
            async with aclosing(ada.events("no/../where")) as events:
                await anext(events)
        session = await ada.open_session()
        with pytest.raises(InvalidRequest, match="11 characters and 10 are allowed"):
            await ada.ask(session, "x" * 11)
        with pytest.raises(InvalidRequest, match="half of a pair"):
            await ada.send(session, "\ud800")
        with pytest.raises(InvalidRequest, match="last event id"):
            async with aclosing(ada.events(session, last="x")) as events:
                await anext(events)
        await ada.send(session, "open")
        await ada.send(session, "waits")
        async with asyncio.timeout(5):
            with pytest.raises(StoreFull, match="1 messages already wait"):
                await ada.ask(session, "no room")
        async with Client(stack.url, "wrong") as stranger:
            with pytest.raises(InvalidRequest, match="unknown key"):
                await stranger.ask(session, "hi")


async def test_everything_else_it_offers(store_url: str) -> None:
    async with front(store_url) as stack, await client_of(stack, "ada") as ada, await client_of(stack, "bob") as bob:
        assert (await ada.me())["user"] == "ada"
        session = await ada.open_session()
        done = await ada.ask(session, "hi")
        assert (await ada.session(session))["turns"] == 1
        assert [record["session"] for record in await ada.sessions()] == [session]
        assert [run["run"] for run in await ada.runs() if run["kind"] == "turn"] == [done.run]
        assert (await ada.run(done.run))["state"] == "completed"
        assert await ada.cancel(done.run) == "completed"
        assert await ada.channel(session) == {"session": session, "appended": 1, "applied": 0}
        assert (await ada.memory())["memory"]["entries"] == []
        job = await ada.add_job("what is new?", every="2m", name="digest")
        assert [found["job"] for found in await ada.jobs()] == [job["job"]]
        assert await ada.inbox() == []
        assert (await bob.runs(), await bob.jobs(), await bob.sessions()) == ([], [], [])
        with pytest.raises(NotFound):
            await bob.run(done.run)


async def test_the_environments_proxy_is_not_used(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with front(store_url) as stack, await client_of(stack, "ada") as ada:
        assert (await ada.me())["user"] == "ada"


async def test_what_is_no_front_is_told_in_one_line() -> None:
    async def page(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0, family=socket.AF_INET)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(url, "key") as client:
            with pytest.raises(InvalidRequest, match="is not Hermes Tasks; check the URL"):
                await client.me()
