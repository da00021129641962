"""A user with a session in a real store, and runs and drains as several processes would have them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.runs import NewRun, Policy
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.memory.tool import MemoryTool
from hermes_tasks.store.channel import BUILTIN, Channel
from hermes_tasks.store.client import Store, StoreConfig
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.memory import DocumentState, Memory
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.store.users import Users

USER = "ann"
SESSION = "s1"
LIMITS = {Document.MEMORY: 2200, Document.USER: 1375}
WRITES = Policy(iterations=5, deadline_s=60, memory="write")


class HeardBell:
    """Keeps what was rung."""

    def __init__(self) -> None:
        self.rings: list[Ring] = []

    async def ring(self, rings: Sequence[Ring]) -> None:
        self.rings.extend(rings)

    def drains(self) -> int:
        return sum(ring.task == "drain" for ring in self.rings)


class Process:
    """What one worker process has."""

    def __init__(self, url: str, *, kept: int = 2000) -> None:
        self.store = Store(url, StoreConfig())
        self.renewer = Renewer(url, self.store.config)
        self.bell = HeardBell()
        self.memory = Memory(self.store)
        self.channel = Channel(self.store, self.bell, self.renewer, kept=kept)
        self.runs = Runs(self.store, self.bell, self.renewer)
        self.sessions = Sessions(self.store, self.bell)
        self.users = Users(self.store)

    async def claimed(self, policy: Policy = WRITES) -> StoreJournal:
        """A new run under our lease. Of a kind whose window has room for several."""
        run = new_id()
        await self.runs.create(NewRun(id=run, kind=RunKind.CHILD, user=USER, policy=policy))
        return await self.claim(run)

    async def claim(self, run: str) -> StoreJournal:
        journal = await self.runs.claim(USER, run)
        assert journal is not None
        return journal

    async def caught_up(self) -> tuple[int, int]:
        return await self.channel.state(USER, SESSION, BUILTIN)

    async def document(self, name: Document = Document.MEMORY) -> DocumentState:
        return await self.memory.document(USER, name)


@asynccontextmanager
async def process(url: str, *, kept: int = 2000, first: bool = True) -> AsyncIterator[Process]:
    """One process; the first one makes user and session."""
    made = Process(url, kept=kept)
    made.renewer.start()
    try:
        if first:
            await made.users.add(USER)
            await made.sessions.open(USER, SESSION)
        yield made
    finally:
        made.renewer.stop()
        await made.store.aclose()


class Caller:
    """Calls the tool in one run, as the agent loop does."""

    def __init__(self, tool: MemoryTool, journal: StoreJournal) -> None:
        self.tool, self.journal = tool, journal
        self.context = ToolContext(run=journal.record, workspace=Path("/nonexistent"), seconds_left=60)

    async def __call__(self, **args: Any) -> dict[str, Any]:
        """The tool's answer as the model reads it; its step is stored either way."""
        async with self.journal.slot(0, self.tool.name) as slot:
            output = await self.tool.run_stored(self.context, args, slot)
        if output is not None:
            await self.journal.append(step_of(output))
        step = self.journal.steps[-1]
        assert isinstance(step, ToolStep)
        answer: dict[str, Any] = json.loads(step.content)
        assert answer["success"] == (step.status == "ok")
        return answer


def step_of(output: ToolOutput) -> ToolStep:
    return ToolStep(call=0, name="memory", content=output.content, status="error" if output.error else "ok")


@asynccontextmanager
async def caller(
    url: str, policy: Policy = WRITES, limits: Mapping[Document, int] = LIMITS
) -> AsyncIterator[tuple[Process, Caller]]:
    """One process with one run that may call the tool."""
    async with process(url) as one:
        yield one, Caller(MemoryTool(one.memory, limits), await one.claimed(policy))
