"""Making jobs: what is stored, what is announced, what is refused, and the warning when nobody fires them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from hermes_tasks.contracts.clock import to_ms
from hermes_tasks.contracts.errors import InvalidRequest, NotFound
from hermes_tasks.cron.firing import Firing
from hermes_tasks.cron.jobs import JobDesk
from hermes_tasks.testing.model import said
from hermes_tasks.testing.waiting import eventually
from tests.integration.composed import USER, Process, process
from tests.integration.cron_times import ShiftedClock, stored

pytestmark = pytest.mark.anyio


@pytest.fixture
async def one(store_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    async with process(store_url, tmp_path, lambda _: said("ran"), keeps=("cron", "deliver")) as made:
        yield made


def desk(one: Process, by: timedelta = timedelta(), limit: int = 100) -> JobDesk:
    return JobDesk(one.base.jobs, one.base.users, ShiftedClock(by), min_interval_s=60, limit=limit)


def moments(answer: dict[str, list[str]]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in answer["next"]]


async def test_an_interval_is_announced_with_its_next_three_times_in_the_users_zone(one: Process) -> None:
    await one.base.users.change(USER, zone="Asia/Kathmandu")
    before = datetime.now(UTC)  # noqa: TID251 - compared with the product's
    answer = await desk(one).add(USER, "", "  what is new?\nin short", "90m", None)
    times = moments(answer)
    assert (answer["schedule"], answer["zone"]) == ("every 90 minutes", "Asia/Kathmandu")
    assert answer["name"] == "what is new?"
    assert [after - time for time, after in pairwise(times)] == [timedelta(minutes=90)] * 2
    assert timedelta(minutes=89, seconds=58) < times[0] - before < timedelta(minutes=90, seconds=30)
    assert all(time.utcoffset() == timedelta(hours=5, minutes=45) for time in times)
    [job] = await one.base.jobs.all(USER)
    assert (job["id"], job["prompt"], job["state"]) == (answer["job"], "  what is new?\nin short", "active")
    assert abs(job["next"] - to_ms(times[0])) < 1000


async def test_a_moment_is_announced_once(one: Process) -> None:
    answer = await desk(one).add(USER, " tea ", "make tea", None, "2031-01-31T09:00")
    assert (answer["name"], answer["next"]) == ("tea", ["2031-01-31T09:00:00+00:00"])
    assert answer["schedule"] == "once, at 2031-01-31T09:00:00+00:00 (UTC)"


async def test_what_was_announced_is_what_fires(one: Process) -> None:
    """A job of one minute, made 59.5 s ago: its first time comes now."""
    answer = await desk(one, timedelta(seconds=-59.5)).add(USER, "", "go", "1m", None)
    first, second, third = (int(time.timestamp()) for time in moments(answer))
    firing = Firing(one.base.jobs, ShiftedClock(), one_shot_grace_s=3600)
    await eventually(firing.fire_due, 10.0, "the first fire")
    [slot] = await one.base.jobs.ledger(USER, answer["job"])
    assert slot["slot"] // 1000 == first
    assert int((await stored(one.base, answer["job"]))["next"]) // 1000 == second
    assert third - second == second - first == 60


@pytest.mark.parametrize(
    ("prompt", "every", "at", "field"),
    [
        ("  \n", "2m", None, "prompt"),
        ("x" * 20_001, "2m", None, "prompt"),
        ("go", "every 0m", None, "every"),
        ("go", None, "2020-01-01T09:00", "at"),
        ("go", None, None, "schedule"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_nothing_is_stored(
    one: Process, prompt: str, every: str | None, at: str | None, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await desk(one).add(USER, "", prompt, every, at)
    assert refused.value.field == field
    assert await one.base.jobs.all(USER) == []
    assert await one.base.jobs.due_users() == []


async def test_a_job_too_many_and_an_unknown_user_are_refused(one: Process) -> None:
    await desk(one, limit=1).add(USER, "", "go", "2m", None)
    with pytest.raises(InvalidRequest, match="1 jobs and 1 are allowed"):
        await desk(one, limit=1).add(USER, "", "go", "2m", None)
    with pytest.raises(NotFound, match="no user nobody"):
        await desk(one).add("nobody", "", "go", "2m", None)


async def test_a_job_is_made_although_nothing_fires_jobs_and_the_answer_says_so(one: Process) -> None:
    answer = await desk(one).add(USER, "", "go", "10m", None)
    assert "no scheduler has ever run" in answer["warning"]
    await Firing(one.base.jobs, ShiftedClock(), one_shot_grace_s=3600).fire_due()
    assert (await desk(one).add(USER, "", "go", "10m", None))["warning"] == ""
    silent = await desk(one, timedelta(seconds=180)).add(USER, "", "go", "10m", None)
    assert "last seen 18" in silent["warning"]
    assert "when it is back" in silent["warning"]
    assert len(await one.base.jobs.all(USER)) == 3
