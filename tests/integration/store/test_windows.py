"""Admission: how many of a user's runs are in flight, and who is next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.store.channel import BUILTIN
from tests.integration.store.world import CONFIG, DONE, FAILED, USER, World, worlds

pytestmark = pytest.mark.anyio

NARROW = replace(CONFIG, windows={**CONFIG.windows, "child": 4, "turn": 1, "drain": 2}, children_per_parent=2)


@pytest.fixture
async def narrow(store_url: str) -> AsyncIterator[World]:
    """Windows: 4 children, 2 of one parent, 1 turn, 2 drains."""
    async with worlds(store_url, NARROW) as [made]:
        yield made


async def parents(world: World, count: int) -> list[str]:
    """Runs that are held, of a class of their own."""
    found = [await world.create(RunKind.CRON, spec={"job": "j", "slot": 1}) for _ in range(count)]
    for run in found:
        await world.hold(run)
    world.bell.take()
    return found


async def children(world: World, parent: str, count: int) -> list[str]:
    return [await world.create(parent=parent, run=f"{parent}-{n}") for n in range(count)]


async def inside(world: World, kind: str = "child") -> set[str]:
    return set(await world.on("SMEMBERS", f"win:{kind}"))


async def test_what_is_over_the_window_waits_its_turn_without_a_bell(narrow: World) -> None:
    runs = [await narrow.create() for _ in range(7)]
    assert narrow.bell.ids() == runs[:4]
    assert await inside(narrow) == set(runs[:4])
    assert await narrow.states(*runs) == [RunState.QUEUED] * 7
    assert not {f"run:{run}" for run in runs[4:]} & set(await narrow.due()), (
        "they need no look before they are admitted"
    )
    await narrow.end(runs[1])
    await narrow.end(runs[0], FAILED)
    await narrow.runs.cancel(USER, runs[2])
    assert narrow.bell.ids() == runs[4:]
    assert await inside(narrow) == set(runs[3:])


async def test_each_class_has_a_window_of_its_own(world: World) -> None:
    rung = []
    for kind in (RunKind.CHILD, RunKind.REVIEW, RunKind.CRON, RunKind.CURATION):
        for _ in range(10):
            await world.create(kind)
        rung.append(len(world.bell.ids(str(kind))))
    assert rung == [8, 1, 4, 1]


async def test_users_do_not_share_a_window(narrow: World) -> None:
    await narrow.users.add("bob")
    for _ in range(9):
        await narrow.create()
    narrow.bell.take()
    await narrow.create(user="bob")
    assert len(narrow.bell.take()) == 1


async def test_a_parent_has_a_few_children_in_flight(narrow: World) -> None:
    [one] = await parents(narrow, 1)
    runs = await children(narrow, one, 5)
    assert narrow.bell.ids() == runs[:2]
    await narrow.end(runs[0])
    assert narrow.bell.ids() == runs[2:3]
    assert await inside(narrow) == set(runs[1:3])


async def test_a_full_parent_does_not_keep_another_from_free_places(narrow: World) -> None:
    one, two = await parents(narrow, 2)
    first = await children(narrow, one, 5)
    second = await children(narrow, two, 2)
    assert set(narrow.bell.ids()) == {*first[:2], *second}, (
        "two places were free, and nobody before them could use them"
    )


async def test_a_run_without_a_parent_passes_those_whose_parent_is_full(narrow: World) -> None:
    [one] = await parents(narrow, 1)
    await children(narrow, one, 5)
    narrow.bell.take()
    alone = await narrow.create()
    assert narrow.bell.ids() == [alone]


async def test_parents_take_turns_however_much_one_of_them_queued(narrow: World) -> None:
    first = [await narrow.create() for _ in range(4)]
    one, two, three = await parents(narrow, 3)
    a, b, c = await children(narrow, one, 6), await children(narrow, two, 3), await children(narrow, three, 1)
    narrow.bell.take()
    order = []
    for run in [*first, a[0], b[0], c[0], a[1], b[1], a[2]]:
        await narrow.end(run)
        order += narrow.bell.ids()
    assert order == [a[0], b[0], c[0], a[1], b[1], a[2], b[2], a[3], a[4]]


async def test_a_resumed_run_goes_before_what_never_ran(narrow: World) -> None:
    sessions = [await narrow.session(f"s{n}") for n in range(4)]
    turns = [await narrow.say(session) for session in sessions]
    parent = await narrow.hold(turns[0])
    [child] = await narrow.batch(parent, 1)
    narrow.bell.take()
    assert await parent.suspend()
    assert narrow.bell.ids() == [turns[1]], "its place went to the next"
    await narrow.end(child)
    assert narrow.bell.ids() == [], "joined, but the only place is taken"
    assert await narrow.state(turns[0]) is RunState.QUEUED
    assert await narrow.runs.claim(USER, turns[0]) is None
    await narrow.end(turns[1])
    assert narrow.bell.ids("turn") == [turns[0]]
    await (await narrow.hold(turns[0])).finish(DONE)
    assert narrow.bell.ids("turn") == [turns[2]]


async def test_a_parent_and_its_children_fit_through_one_place(store_url: str) -> None:
    config = replace(CONFIG, windows={**CONFIG.windows, "child": 1}, children_per_parent=1)
    async with worlds(store_url, config) as [world]:
        parent = await world.held()
        runs = await world.batch(parent, 3)
        world.bell.take()
        assert await parent.suspend()
        for run in runs:
            assert world.bell.ids("child") == [run]
            await world.end(run)
        assert world.bell.ids("child") == [parent.record.id]
        await (await world.hold(parent.record.id)).finish(DONE)
        assert await inside(world) == set()


async def test_a_resumed_child_waits_while_its_parent_is_full(narrow: World) -> None:
    [top] = await parents(narrow, 1)
    middle, *others = await children(narrow, top, 4)
    parent = await narrow.hold(middle)
    [leaf] = await narrow.batch(parent, 1)
    assert await parent.suspend()
    narrow.bell.take()
    await narrow.end(leaf)
    assert (narrow.bell.ids("child"), await inside(narrow)) == ([], set(others[:2]))
    await narrow.end(others[0])
    assert narrow.bell.ids("child") == [middle], "before the sibling that never ran"


async def test_what_was_cancelled_in_the_backlog_is_passed_over(narrow: World) -> None:
    [one] = await parents(narrow, 1)
    runs = [await narrow.create() for _ in range(6)]
    mine = await children(narrow, one, 3)
    for run in (runs[4], *mine):
        await narrow.runs.cancel(USER, run)
    narrow.bell.take()
    await narrow.end(runs[0])
    assert narrow.bell.ids() == [runs[5]]
    await narrow.end(runs[1])
    assert narrow.bell.ids() == []
    assert await narrow.command("KEYS", "*:back:*") == [], "nothing is left of it"


async def test_a_takeover_and_a_worker_that_stops_keep_their_place(narrow: World) -> None:
    runs = [await narrow.create() for _ in range(5)]
    narrow.bell.take()
    await narrow.take_over(await narrow.hold(runs[0]))
    await (await narrow.hold(runs[1])).release()
    assert narrow.bell.ids() == runs[:2]
    assert await inside(narrow) == set(runs[:4])


async def test_nothing_is_left_of_windows_when_all_is_done(narrow: World) -> None:
    [one] = await parents(narrow, 1)
    left = [*(await children(narrow, one, 5)), *[await narrow.create() for _ in range(5)]]
    for run in narrow.bell.ids():
        await narrow.end(run)
    await narrow.runs.cancel(USER, one)
    while rung := [run for run in narrow.bell.ids("child") if not (await narrow.state(run)).terminal]:
        for run in rung:
            await narrow.end(run)
    assert all([(await narrow.state(run)).terminal for run in left])
    assert await narrow.command("KEYS", "*:win*") == await narrow.command("KEYS", "*:back:*") == []


async def test_sessions_share_the_window_of_drains(narrow: World) -> None:
    sessions = [await narrow.session(f"s{n}") for n in range(4)]
    for session in sessions:
        await narrow.append(session, 1)
    assert [ring.args[1] for ring in narrow.bell.take("drain")] == sessions[:2]
    assert await narrow.channel.claim(USER, sessions[2], BUILTIN, 8) is None, "not admitted"
    await narrow.drained(sessions[0])
    assert [ring.args[1] for ring in narrow.bell.take("drain")] == sessions[2:3]
    await narrow.drained(sessions[1])
    await narrow.drained(sessions[2])
    await narrow.drained(sessions[3])
    assert sorted(await narrow.remembered()) == [(session, 1) for session in sessions]
    assert await inside(narrow, "drain") == set()
