"""The store dies and comes back: with everything, or without its last moments. Nothing is then doubled or mixed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import LeaseLost, StoreUnavailable
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.steps import StartedStep
from hermes_tasks.store.channel import Draining, _entries
from hermes_tasks.store.memory import DocumentState
from hermes_tasks.store.renewer import Lease
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import (
    ANSWER,
    DONE,
    QUICK,
    USER,
    World,
    calls_step,
    documents,
    guard_of,
    tool_step,
    worlds,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A store of this test's own."""
    with EmbeddedServer(tmp_path / "home") as own:
        yield own


class Log:
    """The append-only file of a server, cut as a machine that lost its last writes would find it."""

    def __init__(self, server: EmbeddedServer, world: World) -> None:
        self._server, self._world = server, world
        [self._file] = (server.paths.home.store / "appendonlydir").glob("*.incr.aof")
        self._kept = 0

    async def mark(self) -> None:
        """Up to here the disk has it."""
        await self._world.written()
        self._kept = self._file.stat().st_size

    async def lose(self, *, torn: int = 0) -> None:
        """Kill the server; it comes back with what the disk had, and ``torn`` bytes of what came next."""
        await self._world.written()
        self._server.kill()
        assert self._file.stat().st_size > self._kept + torn
        with self._file.open("r+b") as file:
            file.truncate(self._kept + torn)
        self._server.start()


async def test_scripts_are_loaded_again_when_the_server_forgot_them(world: World) -> None:
    run = await world.create()
    await world.command("SCRIPT", "FLUSH")
    journal = await world.hold(run)
    await world.command("SCRIPT", "FLUSH")
    await journal.append(ANSWER)
    world.renewer.start()
    await world.command("SCRIPT", "FLUSH")
    renewed = journal.lease.renewed
    await eventually(lambda: journal.lease.renewed > renewed)
    await journal.finish(DONE)
    assert len(await world.runs.steps(USER, run)) == 1


async def test_everything_acknowledged_is_there_after_a_kill(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        session = await world.session()
        await world.turn(session, "before")
        journal = await world.hold(await world.say(session))
        written = [calls_step(), tool_step()]
        for step in written:
            await journal.append(step)
        children = await world.batch(journal, 2)
        await world.end(children[0])
        draining = await world.drain(session)
        before = await world.snapshot()
        await world.written()
        server.kill()
        asking = asyncio.create_task(journal.append(ANSWER))
        await eventually(lambda: not server.running())
        server.start()
        await asking
        after = await world.snapshot()
        steps = f"ht:{{u:{USER}}}:steps:{journal.record.id}"
        assert {name for name in before if before[name] != after[name]} <= {steps, steps.replace("steps:", "run:")}
        assert (await world.runs.steps(USER, journal.record.id))[:2] == written
        assert len(await world.runs.steps(USER, journal.record.id)) == 4
        await world.channel.apply(draining, documents(draining), 8)
        await world.end(children[1])
        assert not await journal.suspend()
        await journal.finish(DONE)
        assert [turn["turn"] for turn in await world.sessions.history(USER, session)] == [1, 2]
        assert await world.remembered() == [(session, 1)]


async def test_a_caller_that_cannot_wait_is_told_in_time(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        await world.written()
        server.kill()
        results = await asyncio.gather(world.say("s1"), world.now(), return_exceptions=True)
        assert [type(result) for result in results] == [StoreUnavailable] * 2
        assert "is it running" in str(results[0])
        server.start()
        await world.session()


async def test_a_store_that_is_a_replica_just_now_is_asked_again(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        journal = await world.held()
        await world.command("REPLICAOF", "127.0.0.1", "1")
        asking = asyncio.create_task(journal.append(ANSWER))
        done, _ = await asyncio.wait({asking}, timeout=0.2)
        assert done == set()
        await world.command("REPLICAOF", "NO", "ONE")
        await asking
        assert await world.runs.steps(USER, journal.record.id) == [ANSWER]


@pytest.mark.parametrize("torn", [0, 40])
async def test_steps_that_were_lost_stop_their_holder_and_the_run_goes_on_from_what_is_left(
    server: EmbeddedServer, torn: int
) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        journal = await world.held()
        await journal.append(calls_step())
        await log.mark()
        await journal.append(tool_step("lost"))
        await journal.append(tool_step("lost too"))
        await log.lose(torn=torn)
        run = journal.record.id
        assert await world.runs.steps(USER, run) == [calls_step()]
        world.bell.take()
        with pytest.raises(LeaseLost, match="without steps that were written"):
            await journal.append(ANSWER)
        assert (await world.state(run), await world.field(run, "rollbacks")) == (RunState.QUEUED, "1")
        assert world.bell.ids() == [run]
        again = await world.hold(run)
        assert (list(again.steps), again.attempt) == ([calls_step()], 2)
        with pytest.raises(LeaseLost):
            await journal.append(ANSWER)
        await again.append(ANSWER)
        assert await world.runs.steps(USER, run) == [calls_step(), ANSWER]
        assert await world.field(run, "attempts") == "", "no process died of it"


@pytest.mark.parametrize("how", ["append", "finish", "suspend", "batch_create", "doc_write"])
async def test_no_write_of_a_holder_whose_steps_were_lost_is_mixed_in(server: EmbeddedServer, how: str) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        session = await world.session()
        journal = await world.hold(await world.say(session))
        run = journal.record.id
        await world.batch(journal, 1)
        await log.mark()
        await journal.append(tool_step("lost"))
        await log.lose()
        writes = {
            "append": lambda: journal.append(ANSWER), "finish": lambda: journal.finish(DONE),
            "suspend": journal.suspend,
            "batch_create": lambda: world.batch(journal, 1, "late"),
            "doc_write": lambda: world.memory.write(
                USER, Document.USER, DocumentState(0, ()), ("x",), guard=guard_of(journal), step=tool_step()
            ),
        }  # fmt: skip
        with pytest.raises(LeaseLost, match="without steps"):
            await writes[how]()
        assert await world.state(run) is RunState.QUEUED
        assert [type(step) for step in await world.runs.steps(USER, run)] == [StartedStep]
        assert await world.sessions.history(USER, session) == []
        assert await world.runs.fields(USER, "late.0") == {}
        assert await world.memory.document(USER, Document.USER) == DocumentState(0, ())
        again = await world.hold(run)
        await again.finish(DONE)
        assert len(await world.sessions.history(USER, session)) == 1


async def test_a_claim_that_was_lost_gives_its_holder_no_right(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        run = await world.create()
        await log.mark()
        old = await world.hold(run)
        await old.append(ANSWER)
        await log.lose()
        new = await world.hold(run)
        assert (new.attempt, old.attempt) == (1, 1), "the same fence; only the holder tells them apart"
        for write in (lambda: old.append(tool_step()), lambda: old.finish(DONE)):
            with pytest.raises(LeaseLost):
                await write()
        await new.append(tool_step("mine"))
        assert await world.runs.steps(USER, run) == [tool_step("mine")]


async def test_an_end_that_was_lost_is_reached_again(server: EmbeddedServer) -> None:
    async with worlds(server.url, QUICK) as [world]:
        log = Log(server, world)
        parent, [child] = await world.waiting_parent(1)
        journal = await world.hold(child)
        await journal.append(ANSWER)
        await log.mark()
        await journal.finish(DONE)
        assert await world.state(parent.record.id) is RunState.QUEUED
        await log.lose()
        assert await world.states(child, parent.record.id) == [RunState.RUNNING, RunState.WAITING]
        world.bell.take()
        sweeping = asyncio.create_task(world.recovery.run())
        try:
            await eventually(lambda: world.bell.ids("child"))
        finally:
            sweeping.cancel()
        await (await world.hold(child)).finish(DONE)
        assert world.bell.ids("curation") == [parent.record.id], "joined once more, and once"
        await world.hold(parent.record.id)


async def test_a_lost_run_is_gone_for_its_holder(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        await log.mark()
        journal = await world.held()
        await log.lose()
        with pytest.raises(LeaseLost):
            await journal.append(ANSWER)
        await journal.release()
        assert await world.runs.fields(USER, journal.record.id) == {}


async def test_entries_that_were_lost_are_not_applied_in_place_of_what_came_since(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        session = await world.session()
        await world.append(session, 1)
        old = await world.drain(session, 1)
        await log.mark()
        await world.append(session, 2, "lost")
        await world.append(session, 3, "lost too")
        assert await world.channel.apply(old, documents(old), 8)
        assert [entry.turn_id for entry in old.entries] == ["lost", "lost too"]
        await log.lose()
        # As its holder knows it: position 1 applied. As the store knows it: nothing.
        with pytest.raises(LeaseLost):
            await world.channel.apply(old, documents(old), 8)
        await world.take_over(old)
        await world.append(session, 2, "new")
        await world.drained(session)
        memory = await world.memory.turns(USER)
        assert [(turn["pos"], turn["turn_id"]) for turn in memory] == [(1, "id-s1-1"), (2, "new")]


async def test_an_advance_that_was_lost_is_made_again(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        session = await world.session()
        for turn in range(1, 5):
            await world.append(session, turn)
        old = await world.drain(session, 2)
        await log.mark()
        assert await world.channel.apply(old, documents(old), 2)
        await log.lose()
        assert [entry.pos for entry in old.entries] == [3, 4]
        with pytest.raises(LeaseLost):
            await world.channel.apply(old, documents(old), 2)
        await world.take_over(old)
        await world.drained(session)
        assert await world.remembered() == [(session, pos) for pos in range(1, 5)]


@pytest.mark.parametrize("since", [0, 1, 2])
async def test_a_cursor_does_not_pass_entries_that_its_holder_never_read(server: EmbeddedServer, since: int) -> None:
    """The holder read entries 1 to 3; the store lost 2 and 3 and was given others since, or none."""
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        session = await world.session()
        await world.append(session, 1)
        await world.script("channel_claim", session, "builtin", "me", 8)
        await log.mark()
        await world.append(session, 2, "lost")
        await world.append(session, 3, "lost too")
        read = await world.script("channel_claim", session, "builtin", "me", 8)
        await log.lose()
        for turn in range(2, 2 + since):
            await world.append(session, turn, f"new {turn}")
        lease = Lease("cur", USER, f"{session}|builtin", int(read["fence"]), "me")
        old = Draining(USER, session, "builtin", lease, 0, _entries(session, read["entries"]))
        assert [entry.pos for entry in old.entries] == [1, 2, 3]
        world.bell.take()
        with pytest.raises(LeaseLost):
            await world.channel.apply(old, documents(old), 8)
        assert await world.remembered() == []
        assert len(world.bell.take("drain")) == 1, "somebody reads them anew"
        await world.drained(session)
        for turn in range(2 + since, 5):
            await world.append(session, turn, f"new {turn}")
        await world.drained(session)
        assert [turn["turn_id"] for turn in await world.memory.turns(USER)] == ["id-s1-1", "new 2", "new 3", "new 4"]


async def test_messages_that_were_lost_leave_no_gap_in_the_turns(server: EmbeddedServer) -> None:
    async with worlds(server.url) as [world]:
        log = Log(server, world)
        session = await world.session()
        await world.turn(session, "one")
        await log.mark()
        lost = await world.turn(session, "two")
        await world.say(session, "three")
        await log.lose()
        assert await world.runs.claim(USER, lost) is None
        await world.turn(session, "two again")
        history = await world.sessions.history(USER, session)
        assert [(turn["turn"], turn["user"]) for turn in history] == [(1, "one"), (2, "two again")]
        await world.drained(session)
        assert [turn["turn"] for turn in await world.memory.turns(USER)] == [1, 2]


async def test_a_result_whose_store_was_away_is_written_when_it_is_back(server: EmbeddedServer) -> None:
    """Q-02: the store is away exactly when one of three children finishes."""
    async with worlds(server.url) as [world]:
        parent = await world.held(RunKind.CURATION)
        children = await world.batch(parent, 3, "b")
        assert await parent.suspend()
        await world.end(children[0])
        second = await world.hold(children[1])
        await world.written()
        server.freeze()
        finishing = asyncio.create_task(second.finish(DONE))
        done, _ = await asyncio.wait({finishing}, timeout=0.3)
        assert done == set()
        server.kill()
        server.start()
        await finishing
        await world.end(children[2])
        batch = await world.runs.batch(USER, "b")
        joined, records = batch.joined, list(batch.children)
        assert (joined, [(record.state, record.result["text"]) for record in records]) == (
            True,
            [("completed", "done")] * 3,
        )
        await world.hold(parent.record.id)
