"""A user with something due always has a hint that is early enough, whoever looks or writes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.store import hints
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.keys import job_shard_key, shard_key
from tests.integration.store.scenario import full_scenario
from tests.integration.store.world import CONFIG, DONE, USER, World, worlds

pytestmark = pytest.mark.anyio

HURRIED = Policy(iterations=1, deadline_s=1, queue_deadline_s=1)


async def forget_the_past(world: World) -> None:
    """A sweeper looked: the hint is exactly what it must be, and no earlier one covers up for the next script."""
    await world.look(takeovers=False)
    await world.hinted()


async def test_after_a_full_life_everything_due_has_a_hint(world: World) -> None:
    await full_scenario(world)
    await world.hinted()


async def test_a_lost_shard_is_built_anew(world: World) -> None:
    await full_scenario(world)
    due = min((await world.due()).values())
    await world.jobs.add(USER, "last", "n", "p", {}, await world.now() + 50, 9)
    await world.command("DEL", *[f"ht:{kind}:{n}" for n in range(8) for kind in ("shard", "jobshard")])
    assert await world.recovery.reindex() == 1
    assert await world.hint() == due
    first = float((await world.on("ZRANGE", "jobsdue", 0, 0, "WITHSCORES"))[1])
    assert float(await world.command("ZSCORE", job_shard_key(USER), USER)) == first


@dataclass
class Scene:
    """A held run with a batch that is held too, backlogs behind both, and an empty session: nothing is rung soon."""

    world: World
    held: StoreJournal

    async def create(self) -> None:
        await self.world.create(policy=HURRIED)

    async def claim(self) -> None:
        run = await self.world.create()
        await forget_the_past(self.world)
        await self.world.hold(run)

    async def finish(self) -> None:
        await self.held.finish(DONE)

    async def suspend(self) -> None:
        assert await self.held.suspend()

    async def release(self) -> None:
        await self.held.release()

    async def batch(self) -> None:
        await self.world.batch(self.held, 2)

    async def cancel(self) -> None:
        await self.world.runs.cancel(USER, self.held.record.id)

    async def say(self) -> None:
        await self.world.say("s1")

    async def append(self) -> None:
        await self.world.append("s1", 1)

    async def drain_some(self) -> None:
        await self.world.append("s1", 1)
        await self.world.append("s1", 2)
        await forget_the_past(self.world)
        draining = await self.world.drain("s1", 1)
        await forget_the_past(self.world)
        await self.world.channel.apply(draining, [], 0)

    async def fire(self) -> None:
        planned = await self.world.now() + 60_000
        await self.world.jobs.add(USER, "j", "n", "p", {}, planned, 5)
        await self.world.jobs.fire(USER, "j", "1", planned, planned + 1, "fire", missed=False, skipped=0)
        await forget_the_past(self.world)
        await self.world.end("fire")

    async def refuse_a_suspect(self) -> None:
        for _ in range(2):
            await self.world.on("HSET", f"run:{await self.world.create()}", "attempts", 2)
        one, two = self.world.bell.ids("child")[-2:]
        await self.world.hold(one)
        await forget_the_past(self.world)
        assert await self.world.runs.claim(USER, two) is None


STEPS: list[Callable[[Scene], Awaitable[None]]] = [
    Scene.create, Scene.claim, Scene.finish, Scene.suspend, Scene.release, Scene.batch, Scene.cancel, Scene.say,
    Scene.append, Scene.drain_some, Scene.fire, Scene.refuse_a_suspect,
]  # fmt: skip
LENGTHS = {"as shipped": (3000, 5000), "short leases": (300, 5000), "short bells": (3000, 200)}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("step", STEPS)
async def test_each_script_announces_what_it_leaves_behind(
    store_url: str, step: Callable[[Scene], Awaitable[None]], lengths: str
) -> None:
    lease_ms, ring_ms = LENGTHS[lengths]
    async with worlds(store_url, replace(CONFIG, lease_ms=lease_ms, ring_ms=ring_ms)) as [world]:
        await world.session()
        scene = Scene(world, await world.held(RunKind.CURATION))
        for child in (await world.batch(scene.held, 4))[:3]:
            await world.hold(child)
        await world.create(RunKind.CURATION)
        await forget_the_past(world)
        await step(scene)
        await world.hinted()


async def test_what_comes_while_a_sweeper_looks_is_not_forgotten(world: World) -> None:
    """The sweeper read the hint and looked; then a run is created; then it moves the hint by what it saw before."""
    await world.store.read(hints.put_at(shard_key(USER), USER, await world.now() - 1000))
    score = await world.hint()
    assert score is not None
    assert (await world.script("due", 0, 200))["next"] == 0
    await world.create()
    await world.store.read(hints.move(shard_key(USER), USER, score, 0))
    await world.hinted()


async def test_a_hint_is_moved_if_nothing_came(world: World) -> None:
    shard = shard_key(USER)
    await world.store.read(hints.put_at(shard, USER, 1000))
    await world.store.read(hints.move(shard, USER, 999.0, 5000))
    assert await world.hint() == 1000
    await world.store.read(hints.move(shard, USER, 1000.0, 5000))
    assert await world.hint() == 5000
    await world.store.read(hints.put_at(shard, USER, 7000))
    hint = await world.hint()
    assert hint is not None
    assert 4999 < hint < 5000, "never later, and never the same"
    await world.store.read(hints.move(shard, USER, hint, 0))
    assert await world.hint() is None
    await world.store.read(hints.move(shard, USER, hint, 9000))
    assert await world.hint() is None


async def test_many_writers_and_sweepers_at_once_lose_no_hint(world: World) -> None:
    world.recovery._calm_from = 0

    async def write(number: int) -> None:
        for _ in range(6):
            run = await world.create(run=f"{number}-{_}")
            if journal := await world.runs.claim(USER, run):
                await journal.finish(DONE)
            else:
                await world.runs.cancel(USER, run)

    async def sweep() -> None:
        for _ in range(20):
            await world.look()

    await asyncio.gather(*(write(number) for number in range(8)), sweep(), sweep())
    await world.hinted()
