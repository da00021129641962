"""A full store refuses new work, says so, and finishes what is in progress, since that is what frees memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import StoreFull
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.store.memory import DocumentState
from hermes_tasks.testing.server import EmbeddedServer
from tests.integration.store.world import ANSWER, DONE, USER, World, guard_of, new_run, tool_step, worlds

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def full(world: World) -> AsyncIterator[None]:
    """The store is above its memory limit inside the block."""
    _, limit = await world.command("CONFIG", "GET", "maxmemory")
    await world.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        assert await world.store.usage() > 1
        yield
    finally:
        await world.command("CONFIG", "SET", "maxmemory", limit)


async def test_new_work_is_refused_and_nothing_is_stored(world: World) -> None:
    session = await world.session()
    planned = await world.now() + 60_000
    before = await world.snapshot()
    async with full(world):
        for call in (
            world.runs.create(new_run()), world.say(session), world.append(session, 1), world.session("other"),
            world.jobs.add(USER, "j", "n", "p", {}, planned, 5), world.users.add("bob"), world.users.new_key(USER),
            world.runs.save_long(USER, "r", "0", "text"),
        ):  # fmt: skip
            with pytest.raises(StoreFull, match="memory limit"):
                await call
        assert await world.snapshot() == before
    await world.say(session)


async def test_work_in_progress_goes_on_to_its_end(world: World) -> None:
    session = await world.session()
    message, following = await world.say(session), await world.say(session)
    child = await world.create()
    async with full(world):
        journal = await world.hold(message)
        await journal.pin("opening", "system")
        await journal.emit([("text", {"text": "a"})])
        await world.memory.write(
            USER, Document.USER, DocumentState(0, ()), ("x",), guard=guard_of(journal), step=tool_step()
        )
        journal._steps.append(tool_step())
        await journal.append(ANSWER)
        lease = journal.lease
        assert (await world.script("leases_renew", "run", lease.id, lease.fence, lease.holder))["states"] == ["ok"]
        await journal.finish(DONE)
        assert await world.runs.cancel(USER, child) is RunState.CANCELLED
        await world.drained(session)
        await (await world.hold(following)).release()
    assert await world.state(message) is RunState.COMPLETED
    assert await world.remembered() == [(session, 1)]
    assert [turn["turn"] for turn in await world.sessions.history(USER, session)] == [1]


async def test_recovery_goes_on(world: World) -> None:
    journal = await world.held()
    await world.recovery.sweep()
    world.recovery._calm_from = 0
    await world.expire(journal)
    async with full(world):
        world.bell.take()
        assert await world.recovery.sweep() == 1
        assert world.bell.ids() == [journal.record.id]
        assert await world.hint() == min((await world.due()).values())
        draining = await world.hold(journal.record.id)
        await draining.finish(DONE)


async def test_events_are_still_read(world: World) -> None:
    session = await world.session()
    await world.turn(session)
    await world.events.start()
    async with full(world):
        stream = world.events.follow(USER, session, "0-0")
        first = await anext(stream)
        assert first is not None
        assert first.type == "turn.started"
        await stream.aclose()


async def fill(world: World) -> None:
    for _ in range(200):
        await world.create(spec={"goal": "x" * 100_000})


async def test_a_small_server_fills_up_and_recovers(tmp_path: Path) -> None:
    """The real limit of a real server, reached by real work."""
    with EmbeddedServer(tmp_path / "small", max_memory_mb=8) as server:
        async with worlds(server.url) as [world]:
            session = await world.session()
            messages = [await world.say(session)]
            journal = await world.hold(messages[0])
            with pytest.raises(StoreFull):
                await fill(world)
            assert await world.on("ZCARD", "runs") > 10
            await journal.append(ANSWER)
            await journal.finish(DONE)
            await world.drained(session)
            assert len(await world.memory.turns(USER)) == 1
            assert 0.8 < await world.store.usage() < 1.3
            for run in await world.runs.recent(USER, 300):
                if run.kind == "child":
                    await world.runs.cancel(USER, run.id)
                    await world.on("DEL", f"run:{run.id}")
            await world.say(session)
