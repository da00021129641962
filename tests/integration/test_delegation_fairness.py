"""One user floods, another talks: the second one's turn and children start as if alone (field case Q-08)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.runs import NewRun
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from hermes_tasks.wiring.base import policies
from tests.integration.composed import USER, kind_of, process, results

pytestmark = pytest.mark.anyio

CHILDREN, JOBS = 200, 10


async def slow(request: ModelRequest) -> ModelStep:
    """Everything takes its time, so that the backlog of the first user stays."""
    if kind_of(request) is RunKind.TURN:
        return said("read it") if results(request) else called(("delegate_task", {"goal": "quick"}))
    await asyncio.sleep(0.5)
    return said("done")


async def test_a_chat_turn_starts_within_two_seconds_beside_a_flood(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, slow) as one:
        await one.base.users.add("bob")
        await one.base.sessions.open("bob", "talk")
        for kind, count in ((RunKind.CHILD, CHILDREN), (RunKind.CRON, JOBS)):
            policy = policies(one.base.settings)[str(kind)]
            for _ in range(count):
                spec = {"goal": "flood", "prompt": "flood", "job": "j", "name": "n", "slot": 0}
                await one.base.runs.create(NewRun(id=new_id(), kind=kind, user=USER, spec=spec, policy=policy))
        assert await one.on("SCARD", "win:child") == 8
        assert await one.on("SCARD", "win:cron") == 4
        turn = (await one.base.sessions.post("bob", "talk", "hello")).message
        record = await one.ended(turn, "bob", 20.0)
        assert record.state is RunState.COMPLETED
        assert record.started - record.created < 2_000
        [child] = await one.of_kind(RunKind.CHILD, "bob")
        assert child.started - child.created < 2_000
        backlog = await one.on("LLEN", "back:child:-")
        assert backlog > CHILDREN // 2, "the flood is still there, and its length can be seen"
        for run in await one.base.runs.recent(USER, CHILDREN + JOBS):
            await one.base.runs.cancel(USER, run.id)
