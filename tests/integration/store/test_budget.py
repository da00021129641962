"""Tokens of a user's day: set aside before a call, settled by what it used, and told by day, kind and model."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes_tasks.contracts.clock import day_in, from_ms
from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.contracts.kinds import RunKind, WaitReason
from hermes_tasks.contracts.runs import OverBudget, Pause
from hermes_tasks.contracts.steps import ModelStep, SummaryStep, Usage
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.spending import Spending
from tests.integration.store.world import CONFIG, DONE, USER, World, guard_of, tool_step

pytestmark = pytest.mark.anyio

ANSWER = ModelStep(text="a", model="small", usage=Usage(input_tokens=70, output_tokens=30, calls=1, cost_micro=45))


async def today(world: World, zone: str = "UTC") -> str:
    return day_in(zone, from_ms(await world.now()))


async def fields(world: World, zone: str = "UTC") -> dict[str, str]:
    return await world.on("HGETALL", f"spend:{await today(world, zone)}")


async def two(world: World) -> tuple[StoreJournal, StoreJournal]:
    return await world.held(), await world.held()


async def test_what_is_set_aside_for_one_run_is_not_there_for_another(world: World) -> None:
    first, second = await two(world)
    assert await first.reserve(600, 1000) is None
    over = await second.reserve(500, 1000)
    assert over is not None
    assert (over.used, over.reserved, over.limit) == (0, 600, 1000)
    assert await second.reserve(400, 1000) is None


async def test_the_same_run_reserves_anew_and_not_more(world: World) -> None:
    journal = await world.held()
    for wanted in (900, 900, 200):
        assert await journal.reserve(wanted, 1000) is None
    assert await fields(world) == {f"r:{journal.record.id}": "200"}


async def test_an_answer_settles_what_was_set_aside(world: World) -> None:
    first, second = await two(world)
    await first.reserve(900, 1000)
    await first.append(ANSWER)
    assert await second.reserve(900, 1000) is None
    assert (await fields(world))["tokens"] == "100"
    over = await first.reserve(1, 1000)
    assert isinstance(over, OverBudget)
    assert (over.used, over.reserved) == (100, 900)


async def test_a_tool_result_settles_nothing(world: World) -> None:
    journal = await world.held()
    await journal.reserve(900, 1000)
    await journal.append(tool_step())
    assert f"r:{journal.record.id}" in await fields(world)


@pytest.mark.parametrize("way", ["pause", "finish", "cancel"])
async def test_whoever_stops_gives_back_what_was_set_aside(world: World, way: str) -> None:
    journal = await world.held()
    await journal.reserve(900, 1000)
    match way:
        case "pause":
            await journal.pause(Pause(why=WaitReason.RATE, wait_s=5))
        case "finish":
            await journal.finish(DONE)
        case "cancel":
            await world.runs.cancel(USER, journal.record.id)
    assert await fields(world) == {}


async def test_a_takeover_keeps_it_for_the_next_holder(world: World) -> None:
    journal, other = await two(world)
    await journal.reserve(900, 1000)
    await world.take_over(journal)
    assert await other.reserve(200, 1000) is not None
    again = await world.hold(journal.record.id)
    assert await again.reserve(900, 1000) is None
    assert await fields(world) == {f"r:{journal.record.id}": "900"}


async def test_only_the_holder_reserves(world: World) -> None:
    journal = await world.held()
    await world.take_over(journal)
    with pytest.raises(LeaseLost):
        await journal.reserve(1, 1000)
    ended = await world.held()
    await world.runs.cancel(USER, ended.record.id)
    with pytest.raises(RunCancelled):
        await ended.reserve(1, 1000)
    assert await fields(world) == {}


async def test_a_refused_reservation_holds_nothing(world: World) -> None:
    first, second = await two(world)
    await first.reserve(600, 1000)
    await second.reserve(300, 1000)
    assert await second.reserve(500, 1000) is not None
    assert await fields(world) == {f"r:{first.record.id}": "600"}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Niue", "Asia/Kolkata"])
async def test_the_day_is_the_users_own(world: World, zone: str) -> None:
    """Kiritimati and Niue are 25 hours apart: their days are never the same."""
    await world.users.change(USER, zone=zone)
    journal = await world.held()
    await journal.append(ANSWER)
    assert (await fields(world, zone))["tokens"] == "100"
    over = await journal.reserve(1000, 1000)
    assert over is not None
    now = from_ms(await world.now())
    assert str(over.resets.tzinfo) == zone
    assert (over.resets.hour, over.resets.minute) == (0, 0)
    assert timedelta() < over.resets - now <= timedelta(days=1)
    assert over.resets_in_s == pytest.approx((over.resets - now).total_seconds(), abs=2)


async def test_a_new_day_has_all_its_tokens(world: World) -> None:
    """The user flies over the date line: what another day used, or has set aside, is not counted."""
    west, east = "Pacific/Niue", "Pacific/Kiritimati"
    await world.users.change(USER, zone=west)
    journal = await world.held()
    run = journal.record.id
    await journal.append(ANSWER)
    assert await journal.reserve(950, 1000) is not None
    for zone, other, wanted in ((east, west, 950), (west, east, 900)):
        await world.users.change(USER, zone=zone)
        await journal.release()
        journal = await world.hold(run)
        assert await journal.reserve(wanted, 1000) is None
        assert (await fields(world, zone))[f"r:{run}"] == str(wanted)
        assert f"r:{run}" not in await fields(world, other), "it is set aside in one day only"


async def test_an_answer_is_counted_once(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    guard = guard_of(journal, 0)
    args = (guard.run, guard.fence, guard.holder, 0, ANSWER.model_dump_json(), ANSWER.usage.model_dump_json())
    assert await world.word("run_append", *args, await today(world), "child|small") == "ok"
    assert (await fields(world))["tokens"] == "100"


async def test_a_day_is_told_by_kind_and_model(world: World) -> None:
    spending = Spending(world.store)
    child, turn = await world.held(), await world.held(RunKind.CRON)
    for journal in (child, child, turn):
        await journal.append(ANSWER)
    await child.append(ANSWER.model_copy(update={"model": "big", "usage": Usage(calls=1, unpriced_calls=1)}))
    await child.append(SummaryStep(text="s", usage=Usage(input_tokens=5, output_tokens=5, calls=1)))
    await turn.reserve(300, 10_000)
    day = await spending.day(USER, await today(world))
    assert [(row.kind, row.model, row.usage.calls, row.usage.cost) for row in day.rows] == [
        ("child", "big", 1, None), ("child", "default", 1, 0.0), ("child", "small", 2, 0.00009),
        ("cron", "small", 1, 0.000045),
    ]  # fmt: skip
    assert (day.total.input_tokens, day.total.output_tokens, day.total.calls, day.total.cost) == (215, 95, 5, None)
    assert (day.tokens, day.reserved) == (310, 300)
    empty = await spending.day(USER, "2001-01-01")
    assert (empty.rows, empty.total, empty.tokens, empty.reserved) == ((), Usage(), 0, 0)


async def test_a_day_is_kept_for_ninety(world: World) -> None:
    journal = await world.held()
    await journal.append(ANSWER)
    ttl = await world.on("TTL", f"spend:{await today(world)}")
    assert CONFIG.spend_keep_s - 60 < ttl <= CONFIG.spend_keep_s
