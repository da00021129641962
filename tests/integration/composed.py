"""Worker processes as they are composed, in the test's own loop: real store, a model that answers by rule."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.settings import Settings
from hermes_tasks.store.keys import user_key
from hermes_tasks.testing.local_bell import LocalBell
from hermes_tasks.testing.model import said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.base import Base
from hermes_tasks.wiring.worker import Parts, WorkerProcess, open_worker

USER = "ann"
SESSION = "s1"
#: Leases and recovery in a tenth of their usual time, for tests in which a process dies.
QUICK: Mapping[str, Any] = {
    "lease": {"length_ms": 500, "renew_ms": 100, "fresh_ms": 300},
    "recovery": {"sweep_ms": 50, "ring_again_ms": 300},
}

Rule = Callable[[ModelRequest], ModelStep | Exception | Awaitable[ModelStep]]


class RuledModel:
    """A ``ModelPort`` that answers by a rule, in whatever order it is asked. Reviews have a rule of their own.

    Attributes:
        requests: every request, oldest first.
    """

    def __init__(self, rule: Rule, *, reviews: Rule = lambda _: said("nothing to save")) -> None:
        self.rule, self.reviews = rule, reviews
        self.requests: list[ModelRequest] = []
        self.at_work = 0
        self.peak = 0

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> ModelStep:
        self.requests.append(request)
        self.at_work += 1
        self.peak = max(self.peak, self.at_work)
        try:
            answer = (self.reviews if kind_of(request) is RunKind.REVIEW else self.rule)(request)
            step = await answer if isawaitable(answer) else answer
        finally:
            self.at_work -= 1
        if isinstance(step, Exception):
            raise step
        if on_text is not None and step.text:
            await on_text(step.text)
        return step

    def context_tokens(self, model: str) -> int:
        return 1_000_000

    def of(self, kind: RunKind) -> list[ModelRequest]:
        return [request for request in self.requests if kind_of(request) is kind]


def kind_of(request: ModelRequest) -> RunKind:
    """For whom the model is asked, as its conversation shows it."""
    system = str(request.messages[0]["content"])
    if any(str(message["content"]).startswith("Review the conversation") for message in request.messages):
        return RunKind.REVIEW
    if system.startswith("You are a sub-agent"):
        return RunKind.CHILD
    return RunKind.CRON if system.startswith("You are a scheduled job") else RunKind.TURN


def last_user(request: ModelRequest) -> str:
    return str(next(message["content"] for message in reversed(request.messages) if message["role"] == "user"))


def results(request: ModelRequest) -> list[str]:
    """The tool results since the user's last words, in order."""
    found: list[str] = []
    for message in reversed(request.messages):
        if message["role"] == "user":
            break
        if message["role"] == "tool":
            found.insert(0, str(message["content"]))
    return found


def tools(request: ModelRequest) -> set[str]:
    return {str(tool["name"]) for tool in request.tools}


def goal_of(request: ModelRequest) -> str:
    return str(request.messages[1]["content"]).partition("\n")[0].removeprefix("Your task: ")


def frozen_bytes(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """The messages as the bytes of a request."""
    return json.dumps(list(messages), ensure_ascii=False).encode()


@dataclass
class Process:
    """One worker process that executes runs of every kind, drains and delivers."""

    worker: WorkerProcess
    bell: LocalBell
    model: RuledModel

    @property
    def base(self) -> Base:
        return self.worker.base

    async def say(self, text: str, session: str = SESSION, **more: Any) -> str:
        """Post a message; returns its id, which is the run's too."""
        return (await self.base.sessions.post(USER, session, text, **more)).message

    async def ended(self, run: str, user: str = USER, deadline: float = 10.0) -> RunRecord:
        """The run's record once it is terminal."""

        async def terminal() -> RunRecord | None:
            record = await self.base.runs.get(user, run)
            return record if record.state.terminal else None

        return await eventually(terminal, deadline, f"the end of run {run}")

    async def turn(self, text: str, session: str = SESSION, **more: Any) -> RunRecord:
        """Post a message and wait for the end of its turn."""
        return await self.ended(await self.say(text, session, **more))

    async def reached(self, run: str, state: RunState, user: str = USER) -> RunRecord:
        async def there() -> RunRecord | None:
            record = await self.base.runs.get(user, run)
            return record if record.state is state else None

        return await eventually(there, 10.0, f"run {run} to be {state}")

    async def history(self, session: str = SESSION) -> list[dict[str, Any]]:
        return await self.base.sessions.history(USER, session)

    async def of_kind(self, kind: RunKind, user: str = USER) -> list[RunRecord]:
        """Runs of that kind, oldest first."""
        return [record for record in reversed(await self.base.runs.recent(user)) if record.kind is kind]

    async def on(self, name: str, suffix: str, *rest: Any, user: str = USER) -> Any:
        """A command on one of the user's keys."""
        [reply] = await self.base.store.read((name, user_key(user, suffix), *rest))
        return reply

    async def events(self, session: str = SESSION) -> list[tuple[str, dict[str, Any]]]:
        """(type, data) of every event of a session."""
        raw = await self.on("XRANGE", f"ev:{session}", "-", "+")
        return [(fields["type"], json.loads(fields["data"])) for _, fields in raw]


def settings_for(url: str, home: Path, **more: Any) -> Settings:
    return Settings(home=home, store={"url": url}, **more)


@asynccontextmanager
async def process(
    url: str,
    home: Path,
    model: RuledModel | Rule,
    *,
    keeps: Collection[str] = (),
    grace_s: float = 0.0,
    **settings: Any,
) -> AsyncIterator[Process]:
    """One process on the store at ``url``, with a user and a session; it ends in order.

    Args:
        keeps: doorbells that are not answered by themselves.
        grace_s: how long runs that are still at work at the end may go on.
    """
    bell = LocalBell(keeps=keeps)
    ruled = model if isinstance(model, RuledModel) else RuledModel(model)
    worker = open_worker(settings_for(url, home, **settings), parts=Parts(model=ruled, bell=bell))
    bell.serve(worker)
    await worker.start()
    try:
        if USER not in {user.id for user in await worker.base.users.all()}:
            await worker.base.users.add(USER)
            await worker.base.sessions.open(USER, SESSION)
        yield Process(worker, bell, ruled)
        assert bell.faults == []
    finally:
        await worker.stop_taking(grace_s)
        await bell.settled()
        await worker.aclose()
