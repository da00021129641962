"""Reviews: owed after every completed turn, one in flight per user, later ones coalesced, each session in its turn."""

from __future__ import annotations

import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.runs import Outcome
from tests.integration.store.world import DONE, USER, World

pytestmark = pytest.mark.anyio


async def turns(world: World, session: str, count: int) -> None:
    for _ in range(count):
        await world.turn(session)


async def test_turns_committed_during_a_review_are_reviewed_together(world: World) -> None:
    session = await world.session()
    await turns(world, session, 3)
    assert world.bell.ids("review") == ["review.s1.1"]
    record = await world.runs.get(USER, "review.s1.1")
    assert (record.kind, record.session, record.spec) == ("review", "", {"session": session, "turn": 1})
    await world.end("review.s1.1")
    assert world.bell.ids("review") == ["review.s1.3"]
    await world.end("review.s1.3")
    assert (world.bell.ids("review"), await world.on("HGETALL", "owed")) == ([], {})
    await turns(world, session, 1)
    assert world.bell.ids("review") == ["review.s1.4"]


async def test_one_review_of_a_user_is_in_flight(world: World) -> None:
    for name in ("s1", "s2", "s3"):
        await turns(world, await world.session(name), 1)
    done = []
    while rung := world.bell.ids("review"):
        [review] = rung
        done.append(review)
        await world.end(review)
    assert done == ["review.s1.1", "review.s2.1", "review.s3.1"]


async def test_a_busy_session_does_not_keep_the_others_from_their_review(world: World) -> None:
    for name in ("busy", "quiet"):
        await turns(world, await world.session(name), 1)
    await turns(world, "busy", 1)
    await world.end("review.busy.1")
    await turns(world, "busy", 1)
    assert world.bell.ids("review")[-1] == "review.quiet.1"
    await world.end("review.quiet.1")
    assert world.bell.ids("review") == ["review.busy.3"]


@pytest.mark.parametrize("state", [state for state in RunState if state.terminal])
async def test_however_a_review_ends_the_next_one_comes(world: World, state: RunState) -> None:
    await turns(world, await world.session(), 2)
    await world.end("review.s1.1", Outcome(state=state))
    assert world.bell.ids("review")[-1] == "review.s1.2"


async def test_a_review_whose_process_died_is_not_doubled(world: World) -> None:
    await turns(world, await world.session(), 1)
    journal = await world.hold("review.s1.1")
    await turns(world, "s1", 1)
    world.bell.take()
    await world.take_over(journal)
    assert world.bell.ids() == ["review.s1.1"]
    await world.end("review.s1.1", DONE)
    assert world.bell.ids("review") == ["review.s1.2"]
