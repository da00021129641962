"""Messages become turns: one at a time, in order, each answered once, and every end is kept."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermes_tasks.contracts.errors import Conflict, InvalidRequest, NotFound, StoreFull
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.contracts.steps import SummaryStep, Usage
from tests.integration.store.world import ANSWER, CONFIG, DONE, FAILED, USER, World, tool_step

pytestmark = pytest.mark.anyio


async def test_a_message_begins_its_turn_and_rings_once(world: World) -> None:
    session = await world.session()
    posted = await world.sessions.post(USER, session, "hello")
    assert posted.accepted
    assert posted.begun == posted.message
    assert [(ring.queue, ring.args) for ring in world.bell.take()] == [("turns", (USER, posted.message))]
    record = await world.runs.get(USER, posted.message)
    assert (record.kind, record.turn, record.generation, record.session) == ("turn", 1, 1, session)
    assert record.spec == {"text": "hello", "origin": "user"}
    assert await world.stream(session) == [
        ("turn.started", {"run": posted.message, "turn": 1, "message": posted.message})
    ]


async def test_one_turn_is_open_and_the_others_wait_in_their_order(world: World) -> None:
    session = await world.session()
    messages = [await world.say(session, f"m{n}") for n in range(4)]
    assert len(world.bell.take()) == 1
    assert await world.sessions.waiting(USER, session) == [(message, f"m{n}") for n, message in enumerate(messages)]
    for number, message in enumerate(messages):
        assert (await world.sessions.get(USER, session))["open"] == message
        for later in messages[number + 1 :]:
            assert await world.runs.claim(USER, later) is None
        await world.end(message)
    history = await world.sessions.history(USER, session)
    assert [(turn["turn"], turn["user"], turn["text"]) for turn in history] == [
        (n + 1, f"m{n}", "done") for n in range(4)
    ]
    assert await world.sessions.waiting(USER, session) == []


async def test_messages_posted_at_once_are_answered_one_after_the_other(world: World) -> None:
    session = await world.session()
    messages = await asyncio.gather(*(world.say(session, f"m{n}") for n in range(5)))
    answered = []
    for _ in messages:
        [message] = world.bell.ids("turn")
        answered.append(message)
        await world.end(message)
    assert sorted(answered) == sorted(messages)
    history = await world.sessions.history(USER, session)
    assert [turn["run"] for turn in history] == answered
    assert [turn["turn"] for turn in history] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("state", [state for state in RunState if state.terminal])
async def test_however_a_turn_ends_the_next_begins(world: World, state: RunState) -> None:
    session = await world.session()
    first, second = await world.say(session), await world.say(session)
    world.bell.take()
    await world.end(first, Outcome(state=state, text="x"))
    assert world.bell.ids("turn") == [second]
    kinds = [kind for _, kind in await world.log(session)]
    assert kinds == ["turn" if state is RunState.COMPLETED else "skipped"]


async def test_history_keeps_everything_of_a_turn(world: World) -> None:
    session = await world.session()
    message = await world.say(session, "a question")
    journal = await world.hold(message)
    await journal.pin("a question\n\n[recall]", "system")
    await journal.append(tool_step("ü"))
    await journal.append(ANSWER)
    await journal.finish(Outcome(state=RunState.EXHAUSTED, text="partly", error="too long"))
    [turn] = await world.sessions.history(USER, session)
    ended = int(await world.field(message, "ended"))
    used = {**ANSWER.usage.model_dump(), "below": Usage().model_dump()}
    assert turn == {
        "v": 1, "turn": 1, "run": message, "state": "exhausted", "reason": "exhausted", "origin": "user",
        "user": "a question", "opening": "a question\n\n[recall]", "generation": 1,
        "steps": [tool_step("ü").model_dump_json(), ANSWER.model_dump_json()], "text": "partly", "error": "too long",
        "usage": used, "at": ended,
    }  # fmt: skip
    assert (await world.stream(session))[-1] == (
        "turn.ended",
        {"turn": 1, "run": message, "state": "exhausted", "exit_reason": "exhausted", "text": "partly",
         "error": "too long", "usage": used},
    )  # fmt: skip


async def test_a_turn_without_steps_is_read_back_as_such(world: World) -> None:
    session = await world.session()
    await world.turn(session)
    assert [turn["steps"] for turn in await world.sessions.history(USER, session)] == [[]]


async def test_only_a_completed_turn_is_synced_and_reviewed(world: World) -> None:
    session = await world.session()
    done, failed = await world.turn(session, "one"), await world.turn(session, "two", FAILED)
    entries = (await world.drain(session)).entries
    assert [(entry.pos, entry.kind, entry.turn, entry.turn_id) for entry in entries] == [
        (1, "turn", 1, done), (2, "skipped", 2, failed),
    ]  # fmt: skip
    assert entries[0].data == {"user": "one", "assistant": "done", "origin": "user"}
    assert entries[1].data == {"state": "failed", "reason": "model_error"}
    assert await world.on("HGETALL", "owed") == {session: "1"}


async def test_the_end_of_a_turn_whose_answer_was_lost_is_told_again(world: World) -> None:
    session = await world.session()
    message = await world.say(session)
    journal = await world.hold(message)
    await journal.finish(DONE)
    before = await world.snapshot()
    await journal.finish(DONE)
    assert await world.snapshot() == before


async def test_condensed_context_starts_a_generation(world: World) -> None:
    session = await world.session()
    journal = await world.hold(await world.say(session))
    await journal.append(SummaryStep(text="in short", upto=0))
    await journal.append(SummaryStep(text="in shorter", upto=0))
    await journal.finish(DONE)
    assert (await world.sessions.get(USER, session))["generation"] == "2"
    entries = (await world.drain(session)).entries
    assert (entries[0].kind, entries[0].data) == (
        "session_switch", {"reason": "compression", "generation": 2},
    )  # fmt: skip
    assert [entry.pos for entry in entries] == [1, 2]
    assert (await world.runs.get(USER, await world.say(session))).generation == 2


async def test_the_users_own_model_is_pinned_at_begin(world: World) -> None:
    session = await world.session()
    await world.on("HSET", "user", "model", 'my "best"')
    record = await world.runs.get(USER, await world.say(session))
    assert record.policy == CONFIG.policies["turn"].model_copy(update={"model": 'my "best"'})


# -- asked twice -----------------------------------------------------------------------------------------------------


async def test_the_same_key_and_body_is_one_message(world: World) -> None:
    session = await world.session()
    posts = await asyncio.gather(*(world.sessions.post(USER, session, "hi", key="k1") for _ in range(8)))
    assert len({posted.message for posted in posts}) == 1
    assert sum(posted.accepted for posted in posts) == 1
    assert world.bell.ids() == [posts[0].message]
    await world.end(posts[0].message)
    again = await world.sessions.post(USER, session, "hi", key="k1")
    assert (again.message, again.accepted, again.begun) == (posts[0].message, False, "")
    assert len(await world.sessions.history(USER, session)) == 1


async def test_the_same_key_with_another_body_is_a_conflict(world: World) -> None:
    session = await world.session()
    await world.sessions.post(USER, session, "hi", key="k1")
    with pytest.raises(Conflict, match="k1"):
        await world.sessions.post(USER, session, "bye", key="k1")
    assert len(await world.sessions.waiting(USER, session)) == 1


async def test_a_key_belongs_to_its_session(world: World) -> None:
    one, two = await world.session("s1"), await world.session("s2")
    first = await world.sessions.post(USER, one, "hi", key="k")
    assert (await world.sessions.post(USER, two, "other", key="k")).message != first.message


async def test_messages_without_a_key_are_all_different(world: World) -> None:
    session = await world.session()
    assert len({await world.say(session, "hi") for _ in range(3)}) == 3


@pytest.mark.parametrize("key", ["", "k"])
async def test_a_message_whose_answer_was_lost_is_accepted_once(world: World, key: str) -> None:
    session, message = await world.session(), new_id()
    body = json.dumps({"text": "hi", "origin": "user"})
    args = ("message_post", session, message, body, key, "hash", 5)
    assert await world.word(*args) == "accepted"
    again = await world.script(*args)
    assert (again["r"], again["message"]) == ("repeated", message)
    await world.end(message)
    assert await world.word(*args) == "repeated"
    assert len(await world.sessions.history(USER, session)) == 1


# -- refused ---------------------------------------------------------------------------------------------------------


async def test_a_full_inbox_refuses_and_keeps_what_it_has(world: World) -> None:
    session = await world.session()
    messages = [await world.say(session) for _ in range(6)]
    before = await world.snapshot()
    with pytest.raises(StoreFull, match="5 messages already wait"):
        await world.say(session)
    assert await world.snapshot() == before
    await world.end(messages[0])
    await world.say(session)


async def test_a_session_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="open one first"):
        await world.say("nobody")
    with pytest.raises(NotFound):
        await world.sessions.get(USER, "nobody")


async def test_a_disabled_or_unknown_user_is_refused(world: World) -> None:
    session = await world.session()
    await world.on("HSET", "user", "state", "disabled")
    with pytest.raises(InvalidRequest, match="no active user"):
        await world.say(session)
    with pytest.raises(InvalidRequest, match="no active user"):
        await world.sessions.open("bob", "s")


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 129, "ä", "-a"])
async def test_ids_that_could_be_mistaken_are_refused(world: World, name: str) -> None:
    session = await world.session()
    with pytest.raises(InvalidRequest):
        await world.sessions.open(USER, name)
    if name:
        with pytest.raises(InvalidRequest):
            await world.sessions.post(USER, session, "hi", key=name)


# -- whoever does it -------------------------------------------------------------------------------------------------


async def test_a_front_that_executes_the_turn_itself_rings_only_for_others(world: World) -> None:
    session = await world.session()
    posted = await world.sessions.post(USER, session, "hi", local=True)
    assert (posted.begun, world.bell.take()) == (posted.message, [])
    await world.make_due(f"run:{posted.message}")
    await world.look()
    assert world.bell.ids() == [posted.message], "it died: recovery rings"


async def test_a_turn_taken_over_is_still_the_only_open_one(world: World) -> None:
    session = await world.session()
    first, second = await world.say(session), await world.say(session)
    await world.take_over(await world.hold(first))
    assert await world.runs.claim(USER, second) is None
    await world.end(first)
    await world.end(second)
    assert [turn["run"] for turn in await world.sessions.history(USER, session)] == [first, second]


async def test_sessions_of_a_user_share_the_window_of_turns(world: World) -> None:
    messages = [await world.say(await world.session(f"s{n}")) for n in range(6)]
    assert world.bell.ids() == messages[:4]
    await world.end(messages[2])
    assert messages[4] in world.bell.ids()


async def test_opening_a_session_again_changes_nothing(world: World) -> None:
    session = await world.session("mine")
    await world.turn(session)
    before = await world.snapshot()
    assert await world.sessions.open(USER, "mine") == "mine"
    assert await world.snapshot() == before
    assert len(await world.sessions.open(USER)) == 36


async def test_sessions_are_listed_by_their_last_activity(world: World) -> None:
    for name in ("one", "two"):
        await world.session(name)
    await world.wait_until(await world.now() + 2)
    await world.turn("one")
    assert [session["id"] for session in await world.sessions.recent(USER)] == ["one", "two"]
    assert [session["id"] for session in await world.sessions.recent(USER, 1)] == ["one"]
    assert await world.sessions.recent("bob") == []
