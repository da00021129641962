"""The ordered channel: positions without gaps, applied in order, once, whoever crashes."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermes_tasks.contracts.errors import Conflict, InvalidRequest, LeaseLost, NotFound
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.store.channel import BUILTIN, Channel
from hermes_tasks.store.keys import user_key
from tests.integration.store.world import CONFIG, FAILED, USER, World, documents

pytestmark = pytest.mark.anyio


async def test_positions_have_no_gaps_whoever_appends(world: World) -> None:
    await world.session("s1")
    await world.session("s2")
    given = await asyncio.gather(*(world.append(session, n) for n in range(1, 31) for session in ("s1", "s2")))
    assert sorted(pos for pos in given if pos) == sorted([*range(1, 31), *range(1, 31)])
    for session in ("s1", "s2"):
        assert [pos for pos, _ in await world.log(session)] == list(range(1, 31))
    assert await world.channel.state(USER, "s1") == (30, 0)


async def test_the_same_turn_again_changes_nothing_and_says_so(world: World) -> None:
    session = await world.session()
    assert await world.append(session, 1) == 1
    before = await world.snapshot()
    assert await world.append(session, 1) is None
    assert await world.snapshot() == before
    await world.drained(session)
    assert await world.append(session, 1) is None, "also after it was applied"


async def test_the_same_number_for_another_turn_is_a_conflict(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    before = await world.snapshot()
    with pytest.raises(Conflict, match="turn 1 of session s1 is already id-s1-1"):
        await world.append(session, 1, "other")
    assert await world.snapshot() == before


async def test_an_entry_without_a_turn_is_appended_once_per_id(world: World) -> None:
    session = await world.session()
    args = ("channel_append", session, "memory_write", 0, "e1", '{"a":1}')
    assert await world.word(*args) == "ok"
    assert await world.word(*args) == "repeated"
    for _ in range(2):
        assert await world.channel.append(USER, session, EntryKind.MEMORY_WRITE, {"b": 2})
    assert len(await world.log(session)) == 3
    await world.sessions.post(USER, session, "hi", key="e1")


async def test_nothing_is_appended_where_nothing_is(world: World) -> None:
    with pytest.raises(NotFound):
        await world.append("nobody", 1)
    with pytest.raises(InvalidRequest):
        await world.channel.append("bob", "s1", EntryKind.TURN, {}, turn=1, turn_id="x")
    assert await world.command("KEYS", user_key("bob", "*")) == []


async def test_turn_numbers_are_remembered_for_a_thousand_turns(world: World) -> None:
    session = await world.session()
    for turn in (1, 2, 1001):
        await world.append(session, turn)
    assert await world.on("HKEYS", f"chanturns:{session}") == ["2", "1001"]


async def test_one_bell_is_outstanding_per_cursor(world: World) -> None:
    session = await world.session()
    for turn in (1, 2, 3):
        await world.append(session, turn)
    assert [ring.args for ring in world.bell.take()] == [(USER, session, BUILTIN)]
    draining = await world.drain(session)
    await world.append(session, 4)
    assert world.bell.take() == [], "whoever drains will see it"
    while await world.channel.apply(draining, documents(draining), 8):
        pass
    assert world.bell.take() == []
    await world.append(session, 5)
    assert len(world.bell.take("drain")) == 1


async def test_a_batch_is_applied_in_order_and_then_the_next(world: World) -> None:
    session = await world.session()
    for turn in range(1, 8):
        await world.append(session, turn)
    draining = await world.drain(session, 3)
    assert [entry.pos for entry in draining.entries] == [1, 2, 3]
    assert await world.channel.apply(draining, documents(draining), 2)
    assert ([entry.pos for entry in draining.entries], draining.pos) == ([4, 5], 3)
    assert await world.channel.apply(draining, documents(draining), 100)
    assert not await world.channel.apply(draining, documents(draining), 100)
    assert await world.remembered() == [(session, pos) for pos in range(1, 8)]
    assert await world.channel.state(USER, session) == (7, 7)
    assert await world.log(session) == []
    assert not world.renewer.holds(draining.lease)
    assert await world.due() == {}


async def test_a_cursor_has_one_holder(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    claims = await asyncio.gather(*(world.channel.claim(USER, session, BUILTIN, 8) for _ in range(4)))
    assert sum(claim is not None for claim in claims) == 1


async def test_an_idle_cursor_cannot_be_claimed(world: World) -> None:
    session = await world.session()
    assert await world.channel.claim(USER, session, BUILTIN, 8) is None
    await world.append(session, 1)
    await world.drained(session)
    assert await world.channel.claim(USER, session, BUILTIN, 8) is None
    with pytest.raises(LeaseLost):
        await Channel(world.store, world.bell).claim(USER, session, BUILTIN, 8)


async def test_a_claim_whose_answer_was_lost_is_answered_the_same_again(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    first = await world.script("channel_claim", session, BUILTIN, "me", 8)
    again = await world.script("channel_claim", session, BUILTIN, "me", 8)
    assert {**first, "now": 0} == {**again, "now": 0}
    assert first["fence"] == 1


@pytest.mark.parametrize("more", [0, 2])
async def test_an_apply_whose_answer_was_lost_is_told_again_and_writes_once(world: World, more: int) -> None:
    session = await world.session()
    for turn in range(1, 5):
        await world.append(session, turn)
    draining = await world.drain(session, 2)
    last = draining.entries[-1]
    args = (
        "channel_apply", session, BUILTIN, draining.lease.fence, draining.lease.holder, 0, 2,
        f"{last.at}|{last.turn_id}", more, 50, *documents(draining),
    )  # fmt: skip
    first, again = await world.script(*args), await world.script(*args)
    assert first["r"] == again["r"] == ("more" if more else "done")
    assert first.get("entries") == again.get("entries")
    assert await world.remembered() == [(session, 1), (session, 2)]
    await world.drained(session) if not more else None
    assert len(await world.remembered()) == (2 if more else 4)


async def test_a_crashed_drain_goes_on_where_it_was_applied(world: World) -> None:
    session = await world.session()
    for turn in range(1, 6):
        await world.append(session, turn)
    dead = await world.drain(session, 2)
    await world.channel.apply(dead, documents(dead), 2)
    world.bell.take()
    await world.take_over(dead)
    assert len(world.bell.take("drain")) == 1
    alive = await world.drain(session, 8)
    assert ([entry.pos for entry in alive.entries], alive.lease.fence) == ([3, 4, 5], 2)
    with pytest.raises(LeaseLost):
        await world.channel.apply(dead, documents(dead), 2)
    await world.channel.apply(alive, documents(alive), 0)
    assert await world.remembered() == [(session, pos) for pos in range(1, 6)]


async def test_giving_a_cursor_back_looks_again(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    draining = await world.drain(session)
    await world.append(session, 2)
    world.bell.take()
    assert not await world.channel.apply(draining, documents(draining), 0)
    assert len(world.bell.take("drain")) == 1, "what came meanwhile is asked for at once"
    await world.drained(session)
    assert await world.remembered() == [(session, 1), (session, 2)]


async def test_a_drain_whose_work_was_done_before_it_came_gives_back_at_once(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    await world.on("HSET", f"cur:{session}|{BUILTIN}", "pos", 1)
    assert await world.channel.claim(USER, session, BUILTIN, 8) is None
    assert await world.on("SMEMBERS", "win:drain") == set()
    await world.append(session, 2)
    assert [entry.pos for entry in (await world.drain(session)).entries] == [2]


async def test_a_lost_bell_of_a_cursor_is_rung_again(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    for _ in range(2):
        world.bell.take()
        await world.make_due(f"cur:{session}|{BUILTIN}")
        await world.look()
        assert len(world.bell.take("drain")) == 1
    await world.drain(session)
    await world.make_due(f"cur:{session}|{BUILTIN}")
    await world.look()
    assert world.bell.take("drain") == []


async def test_a_holder_that_died_after_its_last_entry_is_cleaned_up(world: World) -> None:
    session = await world.session()
    await world.append(session, 1)
    draining = await world.drain(session)
    await world.on("HSET", f"cur:{session}|{BUILTIN}", "pos", 1)
    await world.take_over(draining)
    assert await world.due() == {}
    assert await world.on("SMEMBERS", "win:drain") == set()
    await world.append(session, 2)
    assert len(world.bell.take("drain")) >= 1
    assert [entry.pos for entry in (await world.drain(session)).entries] == [2]


async def test_an_entry_of_a_newer_version_does_not_leave_the_cursor_held(world: World) -> None:
    session = await world.session()
    await world.script("channel_append", session, "from_the_future", 0, "x", "{}")
    with pytest.raises(ValueError, match="from_the_future"):
        await world.channel.claim(USER, session, BUILTIN, 8)
    assert world.renewer._leases == set()


async def test_memory_keeps_the_newest(world: World) -> None:
    session = await world.session()
    for turn in range(1, 61):
        await world.append(session, turn)
    await world.drained(session, 16)
    assert await world.remembered() == [(session, pos) for pos in range(11, 61)]


async def test_what_is_no_turn_takes_a_place_and_leaves_nothing(world: World) -> None:
    session = await world.session()
    await world.turn(session, "one")
    await world.turn(session, "two", FAILED)
    await world.turn(session, "three")
    draining = await world.drain(session)
    keep = [entry.model_dump_json() for entry in draining.entries if entry.kind is EntryKind.TURN]
    await world.channel.apply(draining, keep, 0)
    assert await world.remembered() == [(session, 1), (session, 3)]
    assert await world.channel.state(USER, session) == (3, 3)


async def test_turns_before_and_after_a_boundary_arrive_each_under_their_own_session(world: World) -> None:
    """Three quick turns in A, then at once one in B; the process dies between the second and the third; M-07."""
    a, b = await world.session("a"), await world.session("b")
    for text in ("a1", "a2", "a3"):
        await world.turn(a, text)
    await world.turn(b, "b1")
    draining = await world.drain(a, 2)
    await world.channel.apply(draining, documents(draining), 2)
    await world.take_over(draining)
    await world.drained(b)
    await world.drained(a)
    memory = [(turn["session"], turn["turn"], turn["data"]["user"]) for turn in await world.memory.turns(USER)]
    assert [turn for turn in memory if turn[0] == "a"] == [("a", 1, "a1"), ("a", 2, "a2"), ("a", 3, "a3")]
    assert [turn for turn in memory if turn[0] == "b"] == [("b", 1, "b1")]


async def test_entries_carry_what_was_appended(world: World) -> None:
    session = await world.session()
    data = {"user": "ü\n\x00", "n": 2**53 - 1, "empty": [], "deep": {"a": [1, {"b": None}]}}
    await world.channel.append(USER, session, EntryKind.TURN, data, turn=7, turn_id="t7")
    [entry] = (await world.drain(session)).entries
    assert (entry.data, entry.turn, entry.turn_id, entry.session, entry.v) == (data, 7, "t7", session, 1)
    assert entry.at <= await world.now()
    assert json.loads(entry.model_dump_json())["pos"] == 1
    assert CONFIG.windows["drain"] == 8
