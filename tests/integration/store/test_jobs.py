"""Jobs: each planned time is claimed once, and every one is accounted for; deliveries arrive once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.store.keys import job_shard_key, user_key
from tests.integration.store.world import CONFIG, DONE, FAILED, USER, World

pytestmark = pytest.mark.anyio

MINUTE = 60_000


async def job(world: World, name: str = "j1", first: int = 0) -> int:
    """A job whose planned time has come; returns that time."""
    planned = first or await world.now() + MINUTE
    await world.jobs.add(USER, name, "digest", "say what is new", {"every": "1m"}, planned, 5)
    return planned


async def fire(world: World, planned: int, **more: Any) -> str:
    given: dict[str, Any] = {
        "job": "j1", "version": "1", "planned_ms": planned, "next_ms": planned + MINUTE, "run": f"fire-{planned}",
        "missed": False, "skipped": 0,
    } | more  # fmt: skip
    return await world.jobs.fire(USER, **given)


async def test_a_job_is_stored_with_its_first_time(world: World) -> None:
    planned = await job(world)
    [stored] = await world.jobs.all(USER)
    assert (stored["id"], stored["name"], stored["state"], stored["next"]) == ("j1", "digest", "active", planned)
    assert stored["schedule"] == {"every": "1m"}
    assert await world.jobs.due(USER) == ([], planned)
    before = await world.snapshot()
    await job(world, first=planned + 5)
    assert await world.snapshot() == before, "the same id again changes nothing"


async def test_a_job_too_many_or_too_late_is_refused(world: World) -> None:
    for number in range(5):
        await job(world, f"j{number}")
    with pytest.raises(InvalidRequest, match="5 jobs and 5 are allowed"):
        await job(world, "one more")
    with pytest.raises(InvalidRequest, match="has passed"):
        await world.jobs.add(USER, "late", "n", "p", {}, await world.now() - 1, 50)
    await world.on("HSET", "user", "state", "disabled")
    with pytest.raises(InvalidRequest, match="no active user"):
        await job(world, "disabled")


async def test_a_planned_time_is_fired_once_however_many_try(world: World) -> None:
    planned = await job(world)
    words = await asyncio.gather(*(fire(world, planned) for _ in range(6)))
    assert sorted(words) == ["fired", *["stale"] * 5]
    assert world.bell.ids() == [f"fire-{planned}"]
    record = await world.runs.get(USER, f"fire-{planned}")
    assert (record.kind, record.policy) == ("cron", CONFIG.policies["cron"])
    assert record.spec == {"job": "j1", "name": "digest", "prompt": "say what is new", "slot": planned}
    assert len(await world.jobs.ledger(USER, "j1")) == 1
    [stored] = await world.jobs.all(USER)
    assert stored["next"] == planned + MINUTE
    assert (await world.jobs.due(USER))[1] == planned + MINUTE


@pytest.mark.parametrize("old", [{"version": "2"}, {"planned_ms": 1}, {"job": "nobody"}])
async def test_what_was_read_before_a_change_fires_nothing(world: World, old: dict[str, Any]) -> None:
    planned = await job(world)
    before = await world.snapshot()
    assert await fire(world, planned, **old) == "stale"
    assert await world.snapshot() == before


async def test_a_fire_is_skipped_while_the_one_before_is_at_work(world: World) -> None:
    planned = await job(world)
    await fire(world, planned)
    assert await fire(world, planned + MINUTE) == "skipped"
    assert len(world.bell.take()) == 1
    skipped, running = await world.jobs.ledger(USER, "j1")
    assert (skipped["state"], skipped["reason"], skipped["slot"]) == ("skipped", "overlap", planned + MINUTE)
    assert (running["state"], running["run"]) == ("running", f"fire-{planned}")
    await world.end(f"fire-{planned}")
    assert await fire(world, planned + 2 * MINUTE) == "fired"


async def test_a_missed_one_shot_is_told_and_not_run(world: World) -> None:
    planned = await job(world)
    assert await fire(world, planned, next_ms=0, missed=True) == "missed"
    assert world.bell.take() == []
    assert await world.runs.fields(USER, f"fire-{planned}") == {}
    [stored] = await world.jobs.all(USER)
    assert (stored["state"], stored["next"]) == ("done", 0)
    [told] = await world.jobs.mail(USER)
    assert (told["status"], told["job"], told["slot"]) == ("missed", "j1", planned)
    assert [slot["state"] for slot in await world.jobs.ledger(USER, "j1")] == ["missed"]
    assert await world.jobs.due(USER) == ([], 0)
    assert await fire(world, planned, next_ms=0) == "stale"


async def test_what_was_skipped_since_is_counted(world: World) -> None:
    planned = await job(world)
    await fire(world, planned, skipped=7)
    assert (await world.jobs.ledger(USER, "j1"))[0]["skipped"] == 7


@pytest.mark.parametrize(("outcome", "told"), [
    (DONE, {"status": "completed", "text": "done", "error": ""}),
    (FAILED, {"status": "failed", "text": "", "error": "no model"}),
    (Outcome(state=RunState.LOST, text="some"), {"status": "lost", "text": "some", "error": ""}),
])  # fmt: skip
async def test_an_ended_fire_is_in_the_ledger_and_owed_to_the_user(
    world: World, outcome: Outcome, told: dict[str, str]
) -> None:
    planned = await job(world)
    await fire(world, planned)
    await world.end(f"fire-{planned}", outcome)
    [slot] = await world.jobs.ledger(USER, "j1")
    assert (slot["state"], slot["ended"] >= slot["at"]) == (told["status"], True)
    assert await world.on("HGET", "job:j1", "run") == ""
    delivery = world.bell.ids("deliver")[-1]
    assert await world.jobs.mail(USER) == []
    assert await world.jobs.deliver(USER, delivery) == "ok"
    [mail] = await world.jobs.mail(USER)
    assert {name: mail[name] for name in told} == told
    assert (mail["job"], mail["slot"]) == ("j1", planned)


async def test_a_delivery_arrives_once(world: World) -> None:
    planned = await job(world)
    await fire(world, planned)
    await world.end(f"fire-{planned}")
    delivery = f"fire-{planned}"
    words = await asyncio.gather(*(world.jobs.deliver(USER, delivery) for _ in range(5)))
    assert sorted(words) == ["ok", *["settled"] * 4]
    assert len(await world.jobs.mail(USER)) == 1
    assert f"out:{delivery}" not in await world.due()
    assert 0 < await world.on("TTL", f"out:{delivery}") <= CONFIG.keep_s
    assert await world.jobs.deliver(USER, "nobody") == "gone"


async def test_an_owed_delivery_is_rung_again_until_it_is_made(world: World) -> None:
    planned = await job(world)
    await fire(world, planned)
    await world.end(f"fire-{planned}")
    for _ in range(2):
        world.bell.take()
        await world.make_due(f"out:fire-{planned}")
        await world.look()
        assert world.bell.ids("deliver") == [f"fire-{planned}"]
    await world.jobs.deliver(USER, f"fire-{planned}")
    await world.make_due(f"out:fire-{planned}")
    await world.look()
    assert world.bell.take() == []
    await world.on("HSET", "user", "state", "erased")
    assert await world.jobs.deliver(USER, f"fire-{planned}") == "gone"


@pytest.mark.parametrize("change", ["removed", "paused", "edited"])
async def test_the_end_of_a_fire_does_not_write_the_job_back(world: World, change: str) -> None:
    """K-10: what was changed while the fire was at work stays changed, and its outcome is kept."""
    planned = await job(world)
    await fire(world, planned)
    journal = await world.hold(f"fire-{planned}")
    match change:
        case "removed":
            await world.on("DEL", "job:j1")
            await world.on("SREM", "jobs", "j1")
        case "paused":
            await world.on("HSET", "job:j1", "state", "paused", "version", 2)
        case "edited":
            await world.on("HSET", "job:j1", "prompt", "weekly digest v2", "version", 2)
    await job(world, "j2")
    before = await world.on("HGETALL", "job:j1")
    await journal.finish(DONE)
    after = await world.on("HGETALL", "job:j1")
    assert {**before, "run": ""} == after if change != "removed" else after == {}
    assert {stored["id"] for stored in await world.jobs.all(USER)} == ({"j2"} if change == "removed" else {"j1", "j2"})
    assert (await world.jobs.ledger(USER, "j1"))[0]["state"] == "completed"
    assert await world.jobs.deliver(USER, f"fire-{planned}") == "ok"


async def test_inbox_and_ledger_are_bounded(world: World) -> None:
    planned = await job(world)
    await world.on("RPUSH", "mail", *["{}"] * 1000)
    await world.on("RPUSH", "ledger:j1", *["{}"] * 100)
    await fire(world, planned, next_ms=0, missed=True)
    assert (await world.on("LLEN", "mail"), await world.on("LLEN", "ledger:j1")) == (1000, 100)
    assert (await world.jobs.mail(USER, 1))[0]["status"] == "missed"


# -- who must be looked at -------------------------------------------------------------------------------------------


async def test_users_with_due_jobs_are_found_and_the_hint_moves_on(world: World) -> None:
    planned = await job(world)
    assert await world.jobs.due_users() == []
    await world.on("ZADD", "jobsdue", 1, "j1")
    await world.jobs.hint(USER, 1)
    [(user, hint)] = await world.jobs.due_users()
    assert user == USER
    [found], coming = await world.jobs.due(USER)
    assert (found["id"], found["version"], found["next"], coming) == ("j1", "1", planned, 1)
    await world.jobs.settle_hint(USER, hint, planned)
    assert await world.jobs.due_users() == []
    assert float(await world.command("ZSCORE", job_shard_key(USER), USER)) == planned


async def test_a_job_added_while_a_scheduler_looks_is_not_forgotten(world: World) -> None:
    await world.jobs.hint(USER, 1)
    [(_, hint)] = await world.jobs.due_users()
    _, coming = await world.jobs.due(USER)
    assert coming == 0
    planned = await job(world)
    await world.jobs.settle_hint(USER, hint, coming)
    assert float(await world.command("ZSCORE", job_shard_key(USER), USER) or "inf") <= planned


async def test_a_removed_job_leaves_the_index(world: World) -> None:
    await job(world)
    await world.on("DEL", "job:j1")
    await world.on("ZADD", "jobsdue", 1, "j1")
    assert await world.jobs.due(USER) == ([], 0)
    assert await world.on("ZCARD", "jobsdue") == 0


async def test_a_system_entry_is_claimed_by_the_first_who_asks(world: World) -> None:
    claims = await asyncio.gather(*(world.jobs.claim_slot("reindex", 7, 3600) for _ in range(4)))
    assert sorted(claims) == [False, False, False, True]
    assert await world.jobs.claim_slot("reindex", 8, 3600)


async def test_a_scheduler_leaves_a_sign_of_life(world: World) -> None:
    assert await world.jobs.last_tick_ms() is None
    await world.jobs.ticked()
    assert abs(int(await world.jobs.last_tick_ms() or 0) - await world.now()) < 5000


async def test_a_user_without_jobs_has_none(world: World) -> None:
    assert (await world.jobs.all(USER), await world.jobs.mail(USER), await world.jobs.ledger(USER, "j")) == ([], [], [])
    assert await world.command("KEYS", user_key(USER, "job*")) == []
