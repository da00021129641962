"""A store with one user, and the means to play several processes, lost doorbells and the passing of time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import ExitReason, Queue, RunKind, RunState
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.contracts.runs import NewRun, Outcome, Policy
from hermes_tasks.contracts.steps import ModelStep, StartedStep, ToolCall, ToolStep, Usage
from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.store import hints
from hermes_tasks.store.channel import BUILTIN, Channel, Draining
from hermes_tasks.store.client import Store, StoreConfig
from hermes_tasks.store.events import EventReader
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.store.journal import Guard, StoreJournal
from hermes_tasks.store.keys import shard_key, user_key
from hermes_tasks.store.memory import Memory
from hermes_tasks.store.recovery import Recovery
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.rings import rings_of
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.store.users import Users
from hermes_tasks.testing.bell import RecordingBell
from hermes_tasks.testing.waiting import eventually

USER = "ann"
POLICY = Policy(iterations=50, deadline_s=600, queue_deadline_s=3600)
#: Long leases: nothing expires unless a test lets it expire.
CONFIG = StoreConfig(policies=dict.fromkeys(map(str, RunKind), POLICY))
#: Short leases, for tests in which time really passes.
QUICK = replace(CONFIG, lease_ms=400, renew_ms=50, fresh_ms=200, sweep_ms=50, ring_ms=200, ring_max_ms=1600)
ANSWER = ModelStep(text="the answer", usage=Usage(input_tokens=7, output_tokens=3, calls=1))
_WHOLE: dict[str, tuple[Any, ...]] = {
    "hash": ("HGETALL",), "list": ("LRANGE", 0, -1), "set": ("SMEMBERS",), "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "stream": ("XRANGE", "-", "+"), "string": ("GET",),
}  # fmt: skip
DONE = Outcome(state=RunState.COMPLETED, exit_reason=ExitReason.COMPLETED, text="done")
FAILED = Outcome(state=RunState.FAILED, exit_reason=ExitReason.MODEL_ERROR, error="no model")


def tool_step(content: str = "seen", call: int = 0) -> ToolStep:
    return ToolStep(call=call, name="look", content=content)


def calls_step(count: int = 1) -> ModelStep:
    calls = tuple(ToolCall(id=f"c{n}", name="delegate_task", arguments="{}") for n in range(count))
    return ModelStep(text="", calls=calls, finish="tool_calls")


def new_run(kind: RunKind = RunKind.CHILD, run: str = "", **more: Any) -> NewRun:
    return NewRun(**{"id": run or new_id(), "kind": kind, "user": USER, "policy": POLICY} | more)


class World:
    """One process of a fleet. Its leases are renewed only after ``renewer.start()``: without, it is a frozen one."""

    def __init__(self, url: str, config: StoreConfig = CONFIG) -> None:
        self.store = Store(url, config)
        self.bell = RecordingBell()
        self.renewer = Renewer(url, config)
        self.runs = Runs(self.store, self.bell, self.renewer)
        self.sessions = Sessions(self.store, self.bell, max_waiting=5)
        self.channel = Channel(self.store, self.bell, self.renewer, kept=50)
        self.jobs = Jobs(self.store, self.bell)
        self.memory = Memory(self.store)
        self.users = Users(self.store)
        self.recovery = Recovery(self.store, self.bell, queues=(Queue.DELEGATION,))
        self.events = EventReader(self.store)

    async def aclose(self) -> None:
        self.renewer.stop()
        await self.events.aclose()
        await self.store.aclose()

    # -- looking ---------------------------------------------------------------------------------------------------

    async def command(self, *words: Any) -> Any:
        [reply] = await self.store.read(words)
        return reply

    async def on(self, name: str, suffix: str, *rest: Any) -> Any:
        """A command on one of the user's keys."""
        return await self.command(name, user_key(USER, suffix), *rest)

    async def now(self) -> int:
        """The server's time, ms."""
        seconds, micros = await self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def field(self, run: str, name: str) -> str:
        return str((await self.runs.fields(USER, run)).get(name, ""))

    async def state(self, run: str) -> RunState:
        return (await self.runs.get(USER, run)).state

    async def states(self, *runs: str) -> list[RunState]:
        return [await self.state(run) for run in runs]

    async def due(self, user: str = USER) -> dict[str, int]:
        flat = await self.command("ZRANGE", user_key(user, "due"), 0, -1, "WITHSCORES")
        return {str(member): int(float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)}

    async def hinted(self) -> None:
        """What is due first has a hint that is not later."""
        due, hint = await self.due(), await self.hint()
        assert not due or (hint is not None and hint <= min(due.values())), (hint, due)

    async def hint(self, user: str = USER) -> float | None:
        score = await self.command("ZSCORE", shard_key(user), user)
        return None if score is None else float(score)

    async def snapshot(self) -> dict[str, Any]:
        """Every key of the user: its value, and whether it expires; without the clock's high-water mark."""
        names = sorted(await self.command("KEYS", user_key(USER, "*")))
        kinds = await self.store.read(*(("TYPE", name) for name in names))
        wholes = [_WHOLE[kind] for kind in kinds]
        values = await self.store.read(
            *((verb, name, *rest) for name, (verb, *rest) in zip(names, wholes, strict=True))
        )
        expiries = await self.store.read(*(("TTL", name) for name in names))
        for value in values:
            if isinstance(value, dict):
                value.pop("hw", None)
        return {name: (value, ttl >= 0) for name, value, ttl in zip(names, values, expiries, strict=True)}

    async def stream(self, session: str) -> list[tuple[str, dict[str, Any]]]:
        """(type, data) of every event of a session."""
        raw = await self.on("XRANGE", f"ev:{session}", "-", "+")
        return [(fields["type"], json.loads(fields["data"])) for _, fields in raw]

    async def log(self, session: str) -> list[tuple[int, str]]:
        """(position, kind) of the channel's entries that are not applied yet."""
        raw = await self.on("XRANGE", f"log:{session}", "-", "+")
        return [(int(name.split("-")[0]), fields["kind"]) for name, fields in raw]

    async def written(self) -> None:
        """Return when the server has handed all it acknowledged to the system: only then it survives a kill."""

        async def flushed() -> bool:
            info = await self.command("INFO", "persistence")
            return int(info["aof_buffer_length"]) == 0

        await eventually(flushed)

    # -- acting ----------------------------------------------------------------------------------------------------

    async def script(self, name: str, *args: Any) -> dict[str, Any]:
        """Run a script as it is, without the Python around it."""
        return await self.store.call(name, USER, *args)

    async def word(self, name: str, *args: Any) -> str:
        return str((await self.script(name, *args))["r"])

    async def create(self, kind: RunKind = RunKind.CHILD, **more: Any) -> str:
        run = new_run(kind, **more)
        assert await self.runs.create(run)
        return run.id

    async def hold(self, run: str) -> StoreJournal:
        journal = await self.runs.claim(USER, run)
        assert journal is not None, f"{run} could not be claimed: {await self.runs.fields(USER, run)}"
        return journal

    async def held(self, kind: RunKind = RunKind.CHILD, **more: Any) -> StoreJournal:
        return await self.hold(await self.create(kind, **more))

    async def batch(
        self, parent: StoreJournal, count: int, name: str = "", *, away: bool = False, wait_s: int = 0
    ) -> list[str]:
        """A delegation of ``count`` children under ``parent``; ``away``: nobody waits for them."""
        batch = name or new_id()
        children = [
            new_run(
                run=f"{batch}.{n}", parent=parent.record.id, session=parent.record.session, batch=batch, index=n,
                depth=1, spec={"goal": f"goal {n}"},
            )
            for n in range(count)
        ]  # fmt: skip
        async with parent.slot(0, "delegate_task") as slot:
            step = slot.step(ToolOutput("a handle")) if away else slot.started(batch)
            await self.runs.create_batch(slot.guard, step, batch, 0, children, wait_s=wait_s)
            slot.written()
        return [child.id for child in children]

    async def waiting_parent(self, count: int = 2, **more: Any) -> tuple[StoreJournal, list[str]]:
        """A run that is stored as waiting for a batch, and its children."""
        parent = await self.held(RunKind.CURATION, **more)
        children = await self.batch(parent, count)
        assert await parent.suspend()
        return parent, children

    async def end(self, run: str, outcome: Outcome = DONE) -> None:
        await (await self.hold(run)).finish(outcome)

    async def expire(self, journal: StoreJournal | Draining) -> None:
        """Let its lease run out now, as if it had not been renewed for its whole length."""
        lease = journal.lease
        self.renewer.drop(lease)
        await self.on("HSET", f"{lease.kind}:{lease.id}", "lease_until", await self.now() - 1)
        await self.make_due(f"{lease.kind}:{lease.id}")

    async def make_due(self, member: str) -> None:
        """Let the time come that this member of the due index, and the hint with it, waits for."""
        at = await self.now() - 1
        await self.store.read(("ZADD", user_key(USER, "due"), at, member), hints.put_at(shard_key(USER), USER, at))

    async def look(self, *, takeovers: bool = True) -> dict[str, Any]:
        """One look of a sweeper at the user."""
        score = await self.hint()
        answer = await self.script("due", await self.now() if takeovers else 0, 200)
        if score is not None:
            await self.store.read(hints.move(shard_key(USER), USER, score, int(answer["next"])))
        await self.bell.ring(rings_of(USER, answer))
        return answer

    async def take_over(self, journal: StoreJournal | Draining) -> None:
        """Its holder is dead: the lease runs out and a sweeper puts the record back."""
        await self.expire(journal)
        await self.look()

    async def wait_until(self, moment_ms: int) -> None:
        """Return when the server's clock shows ``moment_ms``."""

        async def come() -> bool:
            return await self.now() >= moment_ms

        await eventually(come, 10)

    # -- conversations ---------------------------------------------------------------------------------------------

    async def session(self, name: str = "s1") -> str:
        return await self.sessions.open(USER, name)

    async def say(self, session: str, text: str = "hello", **more: Any) -> str:
        return (await self.sessions.post(USER, session, text, **more)).message

    async def turn(self, session: str, text: str = "hello", outcome: Outcome = DONE) -> str:
        """One whole turn."""
        message = await self.say(session, text)
        await self.end(message, outcome)
        return message

    async def append(self, session: str, turn: int, turn_id: str = "") -> int | None:
        return await self.channel.append(
            USER,
            session,
            EntryKind.TURN,
            {"user": f"said {turn}"},
            turn=turn,
            turn_id=turn_id or f"id-{session}-{turn}",
        )

    async def drain(self, session: str, batch: int = 8) -> Draining:
        draining = await self.channel.claim(USER, session, BUILTIN, batch)
        assert draining is not None
        return draining

    async def drained(self, session: str, batch: int = 8) -> None:
        """Apply everything that waits in a channel."""
        draining = await self.drain(session, batch)
        while await self.channel.apply(draining, documents(draining), batch):
            pass

    async def remembered(self) -> list[tuple[str, int]]:
        """(session, position) of everything in the built-in memory, in its order."""
        return [(turn["session"], turn["pos"]) for turn in await self.memory.turns(USER)]


def documents(draining: Draining) -> list[str]:
    return [entry.model_dump_json() for entry in draining.entries]


def guard_of(journal: StoreJournal, index: int | None = None) -> Guard:
    """The guard of a holder, without its journal's bookkeeping."""
    lease = journal.lease
    return Guard(lease.user, lease.id, lease.fence, lease.holder, len(journal.steps) if index is None else index)


def started(batch: str) -> StartedStep:
    return StartedStep(calls=(0,), batch=batch)


@asynccontextmanager
async def worlds(url: str, *configs: StoreConfig) -> AsyncIterator[Sequence[World]]:
    """Several processes on one store; the first makes the user."""
    made = [World(url, config) for config in configs or (CONFIG,)]
    try:
        await made[0].users.add(USER)
        yield made
    finally:
        for world in made:
            await world.aclose()
