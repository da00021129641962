from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_tasks.contracts.errors import StoreUnavailable
from hermes_tasks.contracts.memory import Entry, EntryKind
from hermes_tasks.memory.drain import MAX_TEXT_CHARS, Drainer, remembered
from hermes_tasks.store.channel import BUILTIN, Channel, Draining
from hermes_tasks.testing.server import EmbeddedServer
from tests.integration.memory_world import SESSION, USER, Process, process

pytestmark = pytest.mark.anyio


async def say(one: Process, *texts: str, first: int = 1) -> None:
    for turn, text in enumerate(texts, first):
        data = {"user": text, "assistant": f"answer to {text}"}
        await one.channel.append(USER, SESSION, EntryKind.TURN, data, turn=turn, turn_id=f"t{turn}")


async def said(one: Process) -> list[str]:
    return [turn["user"] for turn in await one.memory.turns(USER)]


def entry(kind: EntryKind = EntryKind.TURN, **data: Any) -> Entry:
    return Entry(pos=7, kind=kind, session=SESSION, turn=3, turn_id="t3", at=1000, data=data)


def kept(**data: Any) -> dict[str, Any]:
    document = remembered(entry(**data))
    assert document is not None
    made: dict[str, Any] = json.loads(document)
    return made


async def test_turns_are_remembered_in_order_and_only_turns(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one")
        await one.channel.append(USER, SESSION, EntryKind.SKIPPED, {"state": "failed"}, turn=2, turn_id="t2")
        await say(one, "three", first=3)
        await Drainer(one.channel).drain(USER, SESSION, BUILTIN)
        turns = await one.memory.turns(USER)
        assert await one.caught_up() == (3, 3)
        assert [(turn["user"], turn["assistant"], turn["turn"], turn["pos"]) for turn in turns] == [
            ("one", "answer to one", 1, 1),
            ("three", "answer to three", 3, 3),
        ]
        assert {turn["session"] for turn in turns} == {SESSION}
        assert turns[0]["at"] > 0


async def test_a_second_drain_applies_nothing_twice(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one", "two")
        drainer = Drainer(one.channel)
        await asyncio.gather(*(drainer.drain(USER, SESSION, BUILTIN) for _ in range(5)))
        await drainer.drain(USER, SESSION, BUILTIN)
        assert await said(one) == ["one", "two"]


async def test_two_processes_share_a_channel_without_mixing_it_up(store_url: str) -> None:
    texts = [f"text {number}" for number in range(60)]
    async with process(store_url) as one, process(store_url, first=False) as two:
        drainers = [Drainer(owner.channel, batch=3, batches=2) for owner in (one, two)]

        async def drain_on(drainer: Drainer) -> None:
            while (await one.caught_up())[1] < len(texts):
                await drainer.drain(USER, SESSION, BUILTIN)

        await asyncio.wait_for(asyncio.gather(say(one, *texts), *map(drain_on, drainers)), 30)
        assert await said(one) == texts


async def test_a_slice_ends_and_the_rest_is_rung_for(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, *"abcdefg")
        before = one.bell.drains()
        await Drainer(one.channel, batch=2, batches=2).drain(USER, SESSION, BUILTIN)
        assert await one.caught_up() == (7, 4)
        assert one.bell.drains() == before + 1

        await Drainer(one.channel, batch=2, slice_s=0).drain(USER, SESSION, BUILTIN)
        assert await one.caught_up() == (7, 6)
        await Drainer(one.channel).drain(USER, SESSION, BUILTIN)
        assert await said(one) == list("abcdefg")


async def test_who_lost_the_lease_stops_quietly_and_writes_nothing(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one")

        async def slow(entry: Entry) -> str:
            key = f"ht:{{u:{USER}}}:cur:{SESSION}|{BUILTIN}"
            await one.store.redis.hset(key, mapping={"holder": "somebody else"})
            return json.dumps({"user": "never"})

        await Drainer(one.channel, render=slow).drain(USER, SESSION, BUILTIN)
        assert await one.caught_up() == (1, 0)
        assert await said(one) == []
        assert not one.renewer._leases


async def test_a_body_that_fails_gives_the_cursor_back_where_it_was(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one", "two")

        async def broken(entry: Entry) -> str | None:
            raise OSError("no body")

        with pytest.raises(OSError, match="no body"):
            await Drainer(one.channel, render=broken).drain(USER, SESSION, BUILTIN)
        assert await one.caught_up() == (2, 0)
        assert not one.renewer._leases
        await Drainer(one.channel).drain(USER, SESSION, BUILTIN)
        assert await said(one) == ["one", "two"]


async def test_a_body_may_leave_entries_out(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one", "two")

        async def second_only(entry: Entry) -> str | None:
            return remembered(entry) if entry.turn == 2 else None

        await Drainer(one.channel, render=second_only).drain(USER, SESSION, BUILTIN)
        assert await said(one) == ["two"]
        assert await one.caught_up() == (2, 2)


async def test_a_drain_goes_on_when_the_store_comes_back(store_url: str, store_server: EmbeddedServer) -> None:
    async with process(store_url) as one:
        await say(one, "one", "two")
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def waiting(entry: Entry) -> str | None:
            reached.set()
            await go_on.wait()
            return remembered(entry)

        drain = asyncio.create_task(Drainer(one.channel, render=waiting).drain(USER, SESSION, BUILTIN))
        await asyncio.wait_for(reached.wait(), 10)
        store_server.kill()
        go_on.set()
        await asyncio.to_thread(lambda: None)
        store_server.start()
        await asyncio.wait_for(drain, 30)
        assert await said(one) == ["one", "two"]


class Unanswered(Channel):
    """A store that does not answer the first two times, however long one waits."""

    left = 2

    async def apply(self, draining: Draining, documents: Sequence[str], more: int) -> bool:
        if self.left:
            self.left -= 1
            raise StoreUnavailable("the store does not answer")
        return await super().apply(draining, documents, more)


async def test_a_held_cursor_is_not_left_behind_by_a_long_outage(store_url: str) -> None:
    async with process(store_url) as one:
        await say(one, "one", "two")
        channel = Unanswered(one.store, one.bell, one.renewer)
        await Drainer(channel).drain(USER, SESSION, BUILTIN)
        assert channel.left == 0
        assert await said(one) == ["one", "two"]
        assert not one.renewer._leases


async def test_a_bell_of_a_user_who_is_gone_does_nothing(store_url: str) -> None:
    async with process(store_url) as one:
        await Drainer(one.channel).drain("nobody", SESSION, BUILTIN)
        assert not one.renewer._leases


async def test_only_the_newest_turns_are_kept(store_url: str) -> None:
    async with process(store_url, kept=3) as one:
        await say(one, *"abcde")
        await Drainer(one.channel).drain(USER, SESSION, BUILTIN)
        assert await said(one) == ["c", "d", "e"]


def test_secrets_and_recalled_blocks_are_not_remembered() -> None:
    made = kept(
        user="use API_TOKEN=tok_live_9f3kQ7example",
        assistant="Sure.\n<memory-context>\nSECRET-RECALL-71\n</memory-context>\nDone.",
    )
    assert "9f3kQ7example" not in made["user"]
    assert made["assistant"] == "Sure.\n\nDone."


def test_long_texts_are_cut_to_a_bound_without_half_a_secret() -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{'A' * 3000}\n-----END PRIVATE KEY-----"
    filler = "w " * ((2 * MAX_TEXT_CHARS - len(key) - 14) // 2)  # the part that is looked at ends inside the token
    made = kept(user=f"{key} {filler}tok_live_9f3kQ7example more", assistant="y" * 100_000)
    assert "AAAA" not in made["user"]
    assert "9f3k" not in made["user"]
    assert len(made["user"]) < MAX_TEXT_CHARS == len(made["assistant"])
    assert made["assistant"].endswith("…")


@pytest.mark.parametrize("data", [{}, {"user": " ", "assistant": None}, {"user": 7, "assistant": ["x"]}])
def test_a_turn_without_words_leaves_nothing(data: dict[str, Any]) -> None:
    assert remembered(entry(**data)) is None


def test_what_opened_a_turn_counts_as_the_users_only_if_it_was() -> None:
    made = kept(user="results of the sub-agents", assistant="They found it.", origin="delegation")
    assert (made["user"], made["assistant"]) == ("", "They found it.")
    assert kept(user="hello", assistant="hi", origin="user")["user"] == "hello"


@pytest.mark.parametrize("kind", [kind for kind in EntryKind if kind is not EntryKind.TURN])
def test_other_kinds_leave_nothing(kind: EntryKind) -> None:
    assert remembered(entry(kind, user="x", assistant="y")) is None


def test_half_a_character_does_not_stop_a_channel() -> None:
    assert kept(user="a\ud800b", assistant="")["user"] == "a?b"
