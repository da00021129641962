"""The run of a fire: with its owner's memory and zone, without power over memory, and an answer delivered once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.cron.firing import Firing
from hermes_tasks.cron.schedule import Schedule
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from tests.integration.composed import (
    QUICK,
    SESSION,
    USER,
    Process,
    RuledModel,
    frozen_bytes,
    last_user,
    process,
    results,
    tools,
)
from tests.integration.cron_times import ShiftedClock, now_ms, planned

pytestmark = pytest.mark.anyio


async def fired(one: Process, job: str = "digest", user: str = USER) -> str:
    """Fire a job of the user now; returns its run."""
    at = now_ms() - 100
    await planned(one.base, job, Schedule(every_s=3600, anchor_ms=at), at, user=user)
    assert await Firing(one.base.jobs, ShiftedClock(), one_shot_grace_s=3600).fire_due() == 1
    return derived_id("fire", user, job, at)


async def remember(one: Process, user: str, text: str) -> None:
    state = await one.base.memory.document(user, Document.USER)
    assert await one.base.memory.write(user, Document.USER, state, (text,)) is None


async def test_a_fire_runs_its_prompt_and_its_answer_arrives_once(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("all quiet", tokens=(9, 2))) as one:
        run = await fired(one)
        assert (await one.ended(run)).state is RunState.COMPLETED
        await one.bell.settled()
        [mail] = await one.base.jobs.mail(USER)
        assert (mail["id"], mail["job"], mail["name"], mail["status"]) == (run, "digest", "the digest", "completed")
        assert mail["text"] == "all quiet"
        deliver = next(ring for ring in one.bell.rung if ring.task == "deliver")
        for _ in range(3):
            await one.bell.ring([deliver])
        await one.bell.settled()
        assert len(await one.base.jobs.mail(USER)) == 1
        [slot] = await one.base.jobs.ledger(USER, "digest")
        assert (slot["state"], slot["run"]) == ("completed", run)


async def test_a_delivery_that_is_not_there_or_not_the_users_is_nothing(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("all quiet"), keeps=("deliver",)) as one:
        await one.base.users.add("bob")
        run = await fired(one)
        await one.ended(run)
        await one.worker.deliver("bob", run)
        await one.worker.deliver(USER, "no-such-delivery")
        assert await one.base.jobs.mail("bob") == await mail_of(one) == []
        await one.worker.deliver(USER, run)
        assert [mail["text"] for mail in await mail_of(one)] == ["all quiet"]


async def test_a_job_has_its_tools_and_neither_memory_nor_delegation(store_url: str, tmp_path: Path) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        if results(request):
            return said("could not")
        return called(
            ("memory", {"target": "user", "action": "add", "content": "x"}), ("delegate_task", {"goal": "more"})
        )

    async with process(store_url, tmp_path, rule) as one:
        record = await one.ended(await fired(one))
        first, second = one.model.of(RunKind.CRON)
        assert tools(first) >= {"terminal", "read_file", "web_fetch"}
        assert tools(first).isdisjoint({"memory", "delegate_task"})
        memory, delegation = results(second)
        assert "memory is not available to this run" in memory
        assert "delegate_task is not available to this run" in delegation
        assert record.result["text"] == "could not"
        assert await one.of_kind(RunKind.CHILD) == []
        assert (await one.base.memory.document(USER, Document.USER)).entries == ()


async def test_a_jobs_run_is_no_part_of_any_conversation(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("the Osprey has sailed")) as one:
        await one.turn("hello")
        await one.ended(await fired(one))
        await one.bell.settled()
        await one.turn("where is the Osprey")
        await one.bell.settled()
        assert [turn["user"] for turn in await one.history()] == ["hello", "where is the Osprey"]
        assert "do digest" not in str(one.model.of(RunKind.TURN)[-1].messages)
        kept = await one.base.memory.turns(USER, 10)
        assert {turn["user"] for turn in kept} == {"hello", "where is the Osprey"}
        assert len(await one.of_kind(RunKind.REVIEW)) == 2, "the job is not reviewed"
        assert await one.base.channel.state(USER, SESSION) == (2, 2)


async def test_a_jobs_mode_does_not_stick_to_the_process(store_url: str, tmp_path: Path) -> None:
    """One process: Ann's job, Bob's turn, Bob's job, Ann's turn. Each has its own tools, memory and zone."""
    async with process(store_url, tmp_path, lambda _: said("fine")) as one:
        await one.base.users.add("bob", zone="America/Halifax")
        await one.base.users.change(USER, zone="Asia/Kathmandu")
        await one.base.sessions.open("bob", "b1")
        await remember(one, USER, "Ann sails")
        await remember(one, "bob", "Bob paints")
        await one.ended(await fired(one))
        await one.ended((await one.base.sessions.post("bob", "b1", "hello")).message, "bob")
        await one.ended(await fired(one, user="bob"), "bob")
        await one.turn("hello")
        asked = [request for request in one.model.requests if request not in one.model.of(RunKind.REVIEW)]
        ann_job, bob_turn, bob_job, ann_turn = asked
        for request in (ann_job, ann_turn):
            assert "Ann sails" in str(request.messages[0]["content"])
            assert "Bob" not in str(request.messages)
            assert last_user(request).endswith("in Asia/Kathmandu]")
        for request in (bob_turn, bob_job):
            assert "Bob paints" in str(request.messages[0]["content"])
            assert "Ann" not in str(request.messages)
            assert last_user(request).endswith("in America/Halifax]")
        assert tools(ann_job) == tools(bob_job)
        assert tools(ann_turn) == tools(bob_turn) >= {"memory", "delegate_task"}
        assert tools(ann_turn).isdisjoint({"terminal", "web_fetch"})


@pytest.mark.parametrize(
    ("rule", "status", "reason"),
    [
        (lambda _: said(""), "failed", "empty_answer"),
        (lambda _: said("<think>hm</think>"), "failed", "empty_answer"),
        (lambda r: said("so far") if not r.tools else called(("read_file", {"path": str(len(r.messages))})),
         "exhausted", "max_iterations"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_none_is_not_delivered_as_success(
    store_url: str, tmp_path: Path, rule, status: str, reason: str
) -> None:
    limits = {"policies": {"cron": {"iterations": 3}}}
    async with process(store_url, tmp_path, rule, **limits) as one:
        await one.ended(await fired(one))
        await one.bell.settled()
        [mail] = await one.base.jobs.mail(USER)
        assert (mail["status"], mail["reason"]) == (status, reason)
        assert mail["error"]
        [slot] = await one.base.jobs.ledger(USER, "digest")
        assert (slot["state"], slot["reason"]) == (status, reason)


async def test_a_run_that_another_process_finishes_reads_the_same_bytes(store_url: str, tmp_path: Path) -> None:
    stuck = asyncio.Event()

    async def rule(request: ModelRequest) -> ModelStep:
        if not results(request):
            return called(("read_file", {"path": "a.txt"}))
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return said("done")

    model = RuledModel(rule)
    async with process(store_url, tmp_path, model, **QUICK) as one:
        await remember(one, USER, "Ann sails")
        run = await fired(one)
        await eventually(stuck.is_set)
        await remember(one, USER, "Ann has sold her boat")
        await one.base.users.change(USER, zone="Asia/Kathmandu")
    async with process(store_url, tmp_path, model, **QUICK) as two:
        assert (await two.ended(run)).state is RunState.COMPLETED
        await eventually(lambda: mail_of(two))
    _, cut_off, again = model.of(RunKind.CRON)
    assert frozen_bytes(again.messages) == frozen_bytes(cut_off.messages)
    assert "Ann sails" in str(again.messages[0]["content"])


async def mail_of(one: Process) -> list[dict[str, object]]:
    return await one.base.jobs.mail(USER)


async def test_a_lost_delivery_bell_is_rung_again(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("done"), keeps=("deliver",), **QUICK) as one:
        await one.ended(await fired(one))
        assert one.bell.take("deliver")
        await eventually(lambda: "deliver" in {ring.task for ring in one.bell.rings})
        one.bell.deliver("deliver")
        await eventually(lambda: mail_of(one))
        assert len(await mail_of(one)) == 1
