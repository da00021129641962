"""A provider's places: never more than there are, some for turns only, users take turns, and the dead hold none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hermes_tasks.contracts.admission import Caller
from hermes_tasks.store.keys import provider_key
from hermes_tasks.store.permits import Lane, Permits, Reply, member_of, run_of
from hermes_tasks.testing.waiting import eventually
from tests.integration.store.world import World

pytestmark = pytest.mark.anyio

ENDPOINT = "e"


class Door:
    """One endpoint with ``most`` places, as several processes see it."""

    def __init__(self, world: World, most: int | None, lease: timedelta = timedelta(seconds=10)) -> None:
        self.world, self.permits = world, Permits(world.store, lease=lease)
        self.prefix = provider_key(ENDPOINT).removesuffix("state")
        self.lane, self.other = Lane(ENDPOINT, "m", most), Lane(ENDPOINT, "n", most)

    async def enter(self, *members: str, lane: Lane | None = None, stands: bool = True) -> list[str]:
        """One word per member: ok, full, paused."""
        return [(await self.permits.enter(lane or self.lane, member, stands=stands)).word for member in members]

    async def leave(self, member: str, **more: bool) -> list[str]:
        """Who got the place."""
        return list((await self.permits.leave(self.lane, member, **more)).wake)

    async def tend(self, *members: str, **allowed: int) -> Reply:
        return await self.permits.tend(self.lane, allowed, members)

    async def keys(self) -> set[str]:
        return {name.removeprefix(self.prefix) for name in await self.on("KEYS", "*")}

    async def on(self, name: str, suffix: str, *more: object) -> Any:
        """A command on one of the endpoint's keys."""
        return await self.world.command(name, f"{self.prefix}{suffix}", *more)

    async def held(self) -> set[str]:
        return {*await self.on("ZRANGE", "held:turn", 0, -1), *await self.on("ZRANGE", "held:rest", 0, -1)}

    async def pass_time(self, by_ms: int = 10_001) -> None:
        """Let the leases of all places be that much older."""
        for member in await self.held():
            await self.on("ZINCRBY", f"held:{member[:4]}", -by_ms, member)

    async def end_pause(self, since_ms: int = 0) -> None:
        await self.on("HSET", "model:m", "until", await self.world.now() - since_ms)

    async def next_step(self) -> None:
        await self.on("HSET", "model:m", "step_at", 0)


def rest(user: str, *runs: object) -> list[str]:
    return [f"rest|{user}|{run}" for run in runs]


def turn(user: str, run: object = 1) -> str:
    return f"turn|{user}|{run}"


def test_a_run_is_known_by_its_kind_user_and_id() -> None:
    assert member_of(Caller("ann", "r.1", turn=True, tokens=1)) == "turn|ann|r.1"
    assert member_of(Caller("ann", "r.1", turn=False, tokens=1)) == "rest|ann|r.1"
    assert run_of("rest|ann|review.talk|1") == ("ann", "review.talk|1")


@pytest.mark.parametrize(("most", "free"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (20, 15)])
async def test_a_quarter_is_for_turns_alone(world: World, most: int, free: int) -> None:
    door = Door(world, most)
    words = await door.enter(*rest("ann", *range(most)))
    assert words == ["ok"] * free + ["full"] * (most - free)
    words = await door.enter(*(turn(f"u{n}") for n in range(most)))
    assert words == ["ok"] * (most - free) + ["full"] * free


async def test_turns_may_use_every_permit(world: World) -> None:
    door = Door(world, 4)
    assert await door.enter(*(turn(f"u{n}") for n in range(5))) == ["ok"] * 4 + ["full"]
    assert await door.enter(*rest("ann", 1)) == ["full"]


async def test_the_rest_keeps_its_share_when_turns_have_theirs(world: World) -> None:
    """Of four places one is for turns; a second turn takes one of the three others."""
    door = Door(world, 4)
    assert await door.enter(turn("a"), turn("b"), *rest("c", 1, 2, 3)) == ["ok", "ok", "ok", "ok", "full"]
    assert await door.leave(turn("b")) == rest("c", 3)
    assert await door.leave(turn("a")) == [], "the reserved one waits for a turn"
    assert await door.enter(turn("d")) == ["ok"]


async def test_users_take_turns(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0))
    await door.enter(*rest("ann", 1, 2, 3), *rest("bob", 1, 2), *rest("cat", 1))
    order = rest("ann", 0)
    while woken := await door.leave(order[-1]):
        [member] = woken
        assert await door.enter(member) == ["ok"]
        order.append(member)
    assert [member[5:] for member in order] == ["ann|0", "ann|1", "bob|1", "cat|1", "ann|2", "bob|2", "ann|3"]


async def test_a_newcomer_does_not_pass_who_waits_and_joins_the_present_round(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0))
    await door.enter(*rest("zoe", 1, 2, 3))
    assert await door.leave(*rest("ann", 0)) == rest("zoe", 1)
    assert await door.enter(*rest("ann", 4)) == ["full"], "a granted place is in use"
    assert await door.leave(*rest("zoe", 1)) == rest("zoe", 2), "first come within a round, not first in the alphabet"
    assert await door.leave(*rest("zoe", 2)) == rest("ann", 4), "before the third of another"


async def test_a_waiting_turn_goes_before_the_rest_of_its_round(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0, 1), *rest("bob", 1), turn("ann"))
    assert await door.leave(*rest("ann", 0)) == [turn("ann")]
    assert await door.leave(turn("ann")) == rest("ann", 1)


async def test_who_asks_again_keeps_the_permit_in_line_and_among_the_calls(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1), *rest("cat", 1))
    assert await door.enter(*rest("bob", 1), *rest("cat", 1), *rest("bob", 1)) == ["full"] * 3
    assert await door.enter(*rest("ann", 0)) == ["ok"], "a takeover finds the place of the holder before"
    assert await door.leave(*rest("ann", 0)) == rest("bob", 1)
    assert await door.leave(*rest("ann", 0)) == [], "given back twice, it is one place"
    assert await door.held() == set(rest("bob", 1))


async def test_who_will_not_stand_leaves_no_trace(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0))
    assert await door.enter(*rest("bob", 1), stands=False) == ["full"]
    assert await door.leave(*rest("ann", 0)) == []
    assert await door.keys() == set()
    assert await door.enter(*rest("bob", 1), stands=False) == ["ok"]


async def test_the_permit_of_a_dead_process_is_free_after_its_lease(world: World) -> None:
    door = Door(world, 2)
    await door.enter(*rest("ann", 0), *rest("bob", 1))
    await door.pass_time(by_ms=9_000)
    assert (await door.tend()).wake == ()
    await door.pass_time(by_ms=1_001)
    assert (await door.tend()).wake == tuple(rest("bob", 1))
    assert await door.held() == set(rest("bob", 1))


async def test_a_newcomer_does_not_take_the_permit_of_the_dead_before_who_waits(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1))
    await door.pass_time()
    assert (await door.permits.enter(door.lane, *rest("cat", 1), stands=True)).wake == tuple(rest("bob", 1))
    assert await door.held() == set(rest("bob", 1))


async def test_a_lease_really_runs_out(world: World) -> None:
    door = Door(world, 1, lease=timedelta(milliseconds=150))
    assert await door.enter(*rest("ann", 0), *rest("bob", 1)) == ["ok", "full"]

    async def granted() -> bool:
        return (await door.tend()).wake == tuple(rest("bob", 1))

    await eventually(granted)


async def test_a_call_that_is_on_keeps_its_permit(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1))
    for _ in range(3):
        await door.pass_time(by_ms=6_000)
        assert (await door.tend(*rest("ann", 0))).wake == ()
    await door.pass_time(by_ms=20_000)  # nobody could renew: the store was away
    assert (await door.tend(*rest("ann", 0))).wake == (), "the call is on all the same"


async def test_a_permit_that_ends_too_far_ahead_was_written_by_a_clock_that_jumped(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1))
    await door.pass_time(by_ms=-3_600_000)
    assert (await door.tend()).wake == tuple(rest("bob", 1))


async def test_who_was_told_and_did_not_come_is_told_again_and_then_loses_the_permit(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1), *rest("cat", 1))
    assert await door.leave(*rest("ann", 0)) == rest("bob", 1)
    assert (await door.tend()).wake == (), "it was told a moment ago"
    await door.on("ZADD", "granted", await world.now(), *rest("bob", 1))
    assert (await door.tend()).wake == tuple(rest("bob", 1)), "who should have told it may be dead"
    await door.pass_time()
    assert (await door.tend()).wake == tuple(rest("cat", 1))
    assert await door.enter(*rest("bob", 1)) == ["full"]


async def test_a_permit_for_a_run_that_is_gone_goes_on_at_once_unless_the_run_came(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0), *rest("bob", 1), *rest("cat", 1))
    await door.leave(*rest("ann", 0))
    assert await door.leave(*rest("bob", 1), uncalled=True) == rest("cat", 1)
    await door.enter(*rest("cat", 1))
    assert await door.leave(*rest("cat", 1), uncalled=True) == []
    assert await door.held() == set(rest("cat", 1))


async def test_nobody_enters_in_a_pause_and_the_line_keeps_its_order(world: World) -> None:
    door = Door(world, 2)
    await door.enter(*rest("ann", 0))
    reply = await door.permits.pause(door.lane, timedelta(seconds=30))
    assert 29 < reply.left_s <= 30
    assert await door.enter(*rest("bob", 1), turn("cat"), *rest("ann", 0)) == ["paused"] * 3
    assert await door.held() == set(), "whoever had a place stands before all others"
    assert (await door.tend()).wake == ()
    await door.end_pause()
    assert (await door.tend()).wake == (turn("cat"),), "one after a pause"
    await door.next_step()
    assert (await door.tend()).wake == tuple(rest("ann", 0))


async def test_after_a_pause_the_line_moves_by_one_two_four(world: World) -> None:
    door = Door(world, None)
    await door.permits.pause(door.lane, timedelta(seconds=30))
    await door.enter(*rest("ann", *range(10)))
    await door.end_pause()
    steps = []
    for _ in range(5):
        steps.append(len((await door.tend()).wake))
        assert (await door.tend()).wake == (), "a second process that looks in the same second gives nothing more"
        await door.next_step()
    assert steps == [1, 2, 4, 3, 0]
    assert await door.enter(*rest("new", 1)) == ["ok"], "nobody waits any more"


async def test_rates_bound_a_step(world: World) -> None:
    door = Door(world, None)
    await door.permits.pause(door.lane, timedelta(seconds=30))
    await door.enter(*rest("ann", *range(10)))
    await door.end_pause()
    steps = []
    for allowed in (0, 5, 3, 100):
        steps.append(len((await door.tend(m=allowed)).wake))
        await door.next_step()
    assert steps == [0, 2, 3, 5]


async def test_a_pause_of_unknown_length_grows_and_many_refusals_are_one(world: World) -> None:
    door = Door(world, None)
    lengths = []
    for _ in range(8):
        for _ in range(5):
            reply = await door.permits.pause(door.lane, None)
        lengths.append(round(reply.left_s))
        await door.end_pause()
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 64]
    await door.end_pause(since_ms=61_000)
    assert round((await door.permits.pause(door.lane, None)).left_s) == 1, "after a good minute"


async def test_a_pause_is_never_made_shorter(world: World) -> None:
    door = Door(world, None)
    for seconds, left in ((10, 10), (2, 10), (None, 10), (20, 20)):
        length = None if seconds is None else timedelta(seconds=seconds)
        assert left - 1 < (await door.permits.pause(door.lane, length)).left_s <= left


async def test_models_of_one_endpoint_share_its_permits_but_not_a_pause(world: World) -> None:
    door = Door(world, 3)
    assert await door.enter(*rest("ann", 0)) == ["ok"]
    await door.permits.pause(door.lane, timedelta(seconds=30))
    assert await door.enter(*rest("bob", 1)) == ["paused"]
    assert await door.enter(*rest("cat", 1, 2), lane=door.other) == ["ok", "full"]
    assert await door.leave(*rest("ann", 0)) == rest("cat", 2), "who waits for the paused model blocks nobody"
    busy = (await door.tend()).busy
    assert busy == {"m"}


async def test_nothing_is_left_when_nothing_is_on(world: World) -> None:
    door = Door(world, 1)
    await door.enter(*rest("ann", 0, 1), turn("bob"))
    await door.permits.pause(door.lane, None)
    await door.end_pause()
    await door.leave(*rest("ann", 0))
    for _ in range(3):
        for member in (await door.tend()).wake:
            await door.enter(member)
            await door.leave(member)
        await door.next_step()
    await door.tend()
    assert await door.keys() == {"model:m"}, "only how long its pauses have grown"
