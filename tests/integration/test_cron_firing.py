"""Firing: each planned time of each job is accounted for once, by however many schedulers, however late."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.cron.firing import Firing
from hermes_tasks.cron.schedule import Schedule
from hermes_tasks.store.keys import job_shard_key, user_key
from hermes_tasks.testing.model import said
from tests.integration.composed import USER, Process, process
from tests.integration.cron_times import HOUR, MINUTE, ShiftedClock, now_ms, planned, stored

pytestmark = pytest.mark.anyio


@pytest.fixture
async def one(store_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    async with process(store_url, tmp_path, lambda _: said("ran"), keeps=("cron", "deliver")) as made:
        yield made


def firing(one: Process) -> Firing:
    return Firing(one.base.jobs, ShiftedClock(), one_shot_grace_s=3600)


def interval(minutes: int, ago_ms: int) -> tuple[Schedule, int]:
    """A job every so many minutes whose last unfired time was ``ago_ms`` ago, and that time."""
    last = now_ms() - ago_ms
    return Schedule(every_s=60 * minutes, anchor_ms=last - 100 * minutes * MINUTE), last


async def ends(one: Process, run: str) -> None:
    """Let a kept fire run to its end."""
    one.bell.deliver("cron")
    assert (await one.ended(run)).state is RunState.COMPLETED


async def test_a_late_tick_does_not_move_the_next_time(one: Process) -> None:
    schedule, last = interval(5, 7_431)
    await planned(one.base, "digest", schedule, last)
    assert await firing(one).fire_due() == 1
    record = await stored(one.base, "digest")
    assert int(record["next"]) == last + 5 * MINUTE
    [slot] = await one.base.jobs.ledger(USER, "digest")
    run = derived_id("fire", USER, "digest", last)
    assert (slot["slot"], slot["state"], slot["skipped"], slot["run"]) == (last, "running", 0, run)
    assert (await one.base.runs.get(USER, run)).spec["prompt"] == "do digest"
    assert await firing(one).fire_due() == 0
    assert (await one.base.jobs.due_users()) == [], "nobody looks at the user before the next time"
    assert float(await one.on("ZSCORE", "jobsdue", "digest")) == last + 5 * MINUTE


async def test_after_an_outage_a_job_runs_once_and_counts_what_it_skipped(one: Process) -> None:
    schedule, last = interval(5, 47 * MINUTE)
    await planned(one.base, "digest", schedule, last)
    assert await firing(one).fire_due() == 1
    await planned(one.base, "unrelated", Schedule(every_s=3600, anchor_ms=now_ms()), now_ms() + HOUR)
    assert await firing(one).fire_due() == 0, "adding a job fires no other"
    [run] = await one.of_kind(RunKind.CRON)
    [slot] = await one.base.jobs.ledger(USER, "digest")
    assert (slot["slot"], slot["skipped"], slot["run"]) == (last, 9, run.id)
    coming = int((await stored(one.base, "digest"))["next"])
    assert coming == last + 50 * MINUTE
    assert coming > now_ms()


@pytest.mark.parametrize("minutes", [1, 59])
async def test_a_late_one_shot_runs_within_its_grace(one: Process, minutes: int) -> None:
    due = now_ms() - minutes * MINUTE
    await planned(one.base, "tea", Schedule(at_ms=due), due)
    assert await firing(one).fire_due() == 1
    record = await stored(one.base, "tea")
    assert (record["state"], record["next"]) == ("done", "0")
    [slot] = await one.base.jobs.ledger(USER, "tea")
    assert slot["state"] == "running"
    assert await firing(one).fire_due() == 0


async def test_a_one_shot_after_its_grace_is_missed_and_its_owner_is_told(one: Process) -> None:
    due = now_ms() - 61 * MINUTE
    await planned(one.base, "tea", Schedule(at_ms=due), due)
    assert await firing(one).fire_due() == 0
    assert await one.of_kind(RunKind.CRON) == []
    record = await stored(one.base, "tea")
    assert (record["state"], record["next"]) == ("done", "0"), "it never stays scheduled without a time"
    [slot] = await one.base.jobs.ledger(USER, "tea")
    assert (slot["slot"], slot["state"]) == (due, "missed")
    [mail] = await one.base.jobs.mail(USER)
    assert (mail["job"], mail["name"], mail["slot"], mail["status"]) == ("tea", "the tea", due, "missed")
    assert "not running at its time" in mail["error"]
    assert await firing(one).fire_due() == 0
    assert len(await one.base.jobs.mail(USER)) == 1


async def test_three_schedulers_at_once_fire_each_job_once(one: Process) -> None:
    users = [USER, "bob", "cid"]
    for user in users[1:]:
        await one.base.users.add(user)
    last = {}
    for number in range(24):
        schedule, at = interval(5, 1_000 + number)
        last[f"job{number}"] = at
        await planned(one.base, f"job{number}", schedule, at, user=users[number % 3])
    schedulers = [firing(one) for _ in range(3)]
    started = await asyncio.gather(*(scheduler.fire_due() for scheduler in schedulers for _ in range(2)))
    assert sum(started) == 24
    rung = Counter(ring.args[-1] for ring in one.bell.rung if ring.task == "cron")
    assert set(rung.values()) == {1}
    for number, (job, at) in enumerate(last.items()):
        user = users[number % 3]
        assert [slot["slot"] for slot in await one.base.jobs.ledger(user, job)] == [at]
        assert (await one.base.runs.get(user, derived_id("fire", user, job, at))).kind is RunKind.CRON


async def test_a_fire_during_the_run_before_it_is_skipped_and_recorded(one: Process) -> None:
    schedule, last = interval(5, 5 * MINUTE + 500)
    await planned(one.base, "slow", schedule, last)
    assert await firing(one).fire_due() == 1
    first = derived_id("fire", USER, "slow", last)
    second = last + 10 * MINUTE
    await planned_again(one, "slow", now_ms() - 200)
    assert await firing(one).fire_due() == 0
    newest, oldest = await one.base.jobs.ledger(USER, "slow")
    assert (newest["state"], newest["reason"]) == ("skipped", "overlap")
    assert oldest["run"] == first
    assert len(await one.of_kind(RunKind.CRON)) == 1
    await ends(one, first)
    await planned_again(one, "slow", now_ms() - 100)
    assert await firing(one).fire_due() == 1
    assert int((await stored(one.base, "slow"))["next"]) >= second, "skipping does not move the grid"


async def planned_again(one: Process, job: str, at_ms: int) -> None:
    """The job's next planned time is now."""
    await one.base.store.read(
        ("HSET", user_key(USER, f"job:{job}"), "next", at_ms), ("ZADD", user_key(USER, "jobsdue"), at_ms, job)
    )
    await one.base.jobs.hint(USER, at_ms)


async def test_a_run_that_ends_changes_nothing_of_its_job(one: Process) -> None:
    schedule, last = interval(5, 500)
    await planned(one.base, "digest", schedule, last)
    await firing(one).fire_due()
    await one.on("HSET", "job:digest", "prompt", "weekly digest v2", "version", 2, "state", "paused")
    before = await stored(one.base, "digest")
    await planned(one.base, "newer", Schedule(every_s=3600, anchor_ms=now_ms()), now_ms() + HOUR)
    await ends(one, derived_id("fire", USER, "digest", last))
    assert await stored(one.base, "digest") == {**before, "run": ""}
    assert {job["id"] for job in await one.base.jobs.all(USER)} == {"digest", "newer"}
    [slot] = await one.base.jobs.ledger(USER, "digest")
    assert slot["state"] == "completed"


async def test_a_paused_job_does_not_fire(one: Process) -> None:
    schedule, last = interval(5, 500)
    await planned(one.base, "digest", schedule, last)
    await one.on("HSET", "job:digest", "state", "paused")
    assert await firing(one).fire_due() == 0
    assert await one.base.jobs.ledger(USER, "digest") == []


async def test_a_disabled_user_does_not_hold_up_the_others(one: Process) -> None:
    await one.base.users.add("bob")
    schedule, last = interval(5, 500)
    for user in (USER, "bob"):
        await planned(one.base, "digest", schedule, last, user=user)
    await one.base.store.read(("HSET", user_key("bob"), "state", "disabled"))
    assert await firing(one).fire_due() == 1
    assert len(await one.of_kind(RunKind.CRON)) == 1
    [score] = await one.base.store.read(("ZSCORE", job_shard_key("bob"), "bob"))
    assert score is None, "nobody looks at that user again"


async def test_a_job_made_during_a_tick_keeps_its_hint(one: Process) -> None:
    """The hint is moved by compare-and-set: what was put meanwhile stays."""
    schedule, last = interval(5, 500)
    await planned(one.base, "digest", schedule, last)
    [(user, hint)] = await one.base.jobs.due_users()
    soon = now_ms() - 1
    await one.base.jobs.hint(USER, soon)
    await one.base.jobs.settle_hint(user, hint, 0)
    assert [name for name, _ in await one.base.jobs.due_users()] == [USER]
