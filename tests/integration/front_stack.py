"""A front on a real store, in the test's own event loop, whose turns do what the test says."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from hermes_tasks.contracts.clock import SystemClock
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.cron.jobs import JobDesk
from hermes_tasks.front import FrontServer, FrontServices, create_app
from hermes_tasks.settings.sections import FrontSettings
from hermes_tasks.store.channel import Channel
from hermes_tasks.store.client import Store, StoreConfig
from hermes_tasks.store.events import EventReader
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.memory import Memory
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.store.users import Users
from hermes_tasks.testing.bell import RecordingBell
from hermes_tasks.testing.waiting import eventually

POLICY = Policy(iterations=5, deadline_s=60)
CONFIG = StoreConfig(policies={"turn": POLICY, "review": POLICY, "child": POLICY, "cron": POLICY})

Play = Callable[[StoreJournal], Awaitable[None]]


async def say(journal: StoreJournal, *pieces: str, step: int = 0) -> None:
    """Stream ``pieces`` as the text of a step."""
    for text in pieces:
        data = {"run": journal.record.id, "step": step, "attempt": journal.attempt, "text": text}
        await journal.emit([(EventType.TEXT, data)])


async def answer(journal: StoreJournal, text: str) -> None:
    """Complete the turn with ``text``."""
    await journal.finish(Outcome(state=RunState.COMPLETED, exit_reason=ExitReason.COMPLETED, text=text))


async def echo(journal: StoreJournal) -> None:
    """The turn that says back what it was told, in two pieces."""
    text = f"You said: {journal.record.spec['text']}"
    await say(journal, text[:5], text[5:])
    await answer(journal, text)


@dataclass
class Stack:
    """See :func:`front`. ``begun`` are the runs the front was told to execute."""

    services: FrontServices
    bell: RecordingBell
    server: FrontServer
    serving: asyncio.Task[None]
    play: Play | None
    begun: list[tuple[str, str]] = field(default_factory=list)
    turns: set[asyncio.Task[None]] = field(default_factory=set)
    faults: list[BaseException] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def start_turn(self, user: str, run: str) -> None:
        self.begun.append((user, run))
        if self.play is not None:
            self.take(user, run)

    def take(self, user: str, run: str) -> None:
        """Execute a run by the present ``play``."""
        task = asyncio.create_task(self._turn(user, run))
        self.turns.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.turns.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(error)

    async def _turn(self, user: str, run: str) -> None:
        journal = await self.services.runs.claim(user, run)
        assert journal is not None
        assert self.play is not None
        await self.play(journal)
        for ring in self.bell.rings:
            if ring.task == "turn" and ring.args[-1] not in [done for _, done in self.begun]:
                self.start_turn(*ring.args)

    async def http(self, user: str | None, **options: Any) -> httpx.AsyncClient:
        """A plain HTTP client with a fresh key of ``user``, who is made if new; None = no key."""
        headers = {} if user is None else {"Authorization": f"Bearer {await self.key(user)}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, **options)

    async def key(self, user: str) -> str:
        known = {record.id for record in await self.services.users.all()}
        return await self.services.users.new_key(user) if user in known else await self.services.users.add(user)

    async def stop(self) -> None:
        """Stop the front in order."""
        self.server.stop()
        await self.serving

    async def restart(self) -> None:
        """Stop the front, if it runs, and start another on the same port."""
        port = self.server.port if not self.serving.done() else self.port
        if not self.serving.done():
            await self.stop()
        self.server, self.serving = await started(self.services, port)


async def started(services: FrontServices, port: int = 0) -> tuple[FrontServer, asyncio.Task[None]]:
    server = FrontServer(create_app(services), "127.0.0.1", port)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started or serving.done())
    if serving.done():
        serving.result()
    return server, serving


@asynccontextmanager
async def front(url: str, *, play: Play | None = echo, settings: FrontSettings | None = None) -> AsyncIterator[Stack]:
    """The stack on the store at ``url``.

    Args:
        play: executes each turn that begins; None = turns stay open until the test takes them.
    """
    async with AsyncExitStack() as closing:
        store = Store(url, CONFIG)
        closing.push_async_callback(store.aclose)
        renewer = Renewer(url, CONFIG)
        renewer.start()
        closing.callback(renewer.stop)
        events = EventReader(store)
        await events.start()
        closing.push_async_callback(events.aclose)
        bell, chosen, clock = RecordingBell(), settings or FrontSettings(), SystemClock()
        users, jobs = Users(store), Jobs(store, bell)
        stack: Stack
        services = FrontServices(
            store=store, users=users, sessions=Sessions(store, bell, max_waiting=chosen.max_waiting_messages),
            runs=Runs(store, bell, renewer), jobs=jobs, memory=Memory(store), channel=Channel(store, bell, renewer),
            events=events, start_turn=lambda user, run: stack.start_turn(user, run),  # noqa: PLW0108 - made below
            add_job=JobDesk(jobs, users, clock, min_interval_s=60, limit=5).add, front=chosen, clock=clock,
        )  # fmt: skip
        server, serving = await started(services)
        stack = Stack(services, bell, server, serving, play)
        stack.port = server.port
        try:
            yield stack
        finally:
            for fault in stack.faults:
                print("a turn failed:", *traceback.format_exception(fault))
            if not stack.serving.done():
                await stack.stop()
            for turn in list(stack.turns):
                turn.cancel()
            await asyncio.gather(*stack.turns, return_exceptions=True)
        assert stack.faults == []


async def opened(client: httpx.AsyncClient, session: str | None = None) -> str:
    """A session of the client's user."""
    response = await client.post("/v1/sessions", json={} if session is None else {"session": session})
    assert response.status_code == 201, response.text
    return str(response.json()["session"])


async def posted(client: httpx.AsyncClient, session: str, text: str, key: str | None = None) -> str:
    """The id of a message that was accepted."""
    headers = {} if key is None else {"Idempotency-Key": key}
    response = await client.post(f"/v1/sessions/{session}/messages", json={"text": text}, headers=headers)
    assert response.status_code == 202, response.text
    return str(response.json()["message"])
