from __future__ import annotations

import json

import pytest

from hermes_tasks.memory.recall import MAX_CHARS, BuiltinRecall
from tests.integration.memory_world import USER, Process, process

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000


async def had(one: Process, *turns: tuple[str, str, str]) -> None:
    """(session, user, assistant) each, a day apart, from 1970-01-02 on."""
    for number, (session, user, assistant) in enumerate(turns, 1):
        document = {
            "v": 1, "session": session, "pos": number, "turn": number, "turn_id": f"t{number}", "at": number * DAY_MS,
            "user": user, "assistant": assistant,
        }  # fmt: skip
        await one.store.redis.rpush(f"ht:{{u:{USER}}}:mem:turns", json.dumps(document))


async def recall(one: Process, query: str, *, session: str = "now", in_prompt: int = 20) -> str:
    return await BuiltinRecall(one.memory, in_prompt=in_prompt).prefetch(query, user=USER, session=session)


async def test_what_shares_telling_words_is_recalled_the_best_first(store_url: str) -> None:
    async with process(store_url) as one:
        await had(
            one,
            ("a", "Which wifi do we use?", "The summer house has wifi."),
            ("b", "Note the wifi password of the summer house", "Noted: the wifi code."),
            ("c", "Bake bread", "Use rye."),
        )
        lines = (await recall(one, "What was the wifi password in the summer house?")).split("\n")
        assert lines == [
            "- 1970-01-03 | user: Note the wifi password of the summer house | assistant: Noted: the wifi code.",
            "- 1970-01-02 | user: Which wifi do we use? | assistant: The summer house has wifi.",
        ]


async def test_nothing_fitting_gives_nothing(store_url: str) -> None:
    async with process(store_url) as one:
        assert await recall(one, "bread") == ""
        await had(one, ("a", "Bake bread", "Use rye."))
        assert await recall(one, "the weather in Porto") == ""
        assert await recall(one, "what is it?") == ""


async def test_the_newer_of_equals_comes_first_and_repeats_come_once(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("a", "bread", "rye"), ("b", "bread", "oat"), ("c", "bread", "rye"))
        assert (await recall(one, "bread")).split("\n") == [
            "- 1970-01-04 | user: bread | assistant: rye",
            "- 1970-01-03 | user: bread | assistant: oat",
        ]


async def test_what_the_prompt_has_is_left_out_but_older_turns_of_the_session_are_not(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("now", "bread one", ""), ("now", "bread two", ""), ("old", "bread three", ""))
        assert (
            await recall(one, "bread", in_prompt=1)
            == "- 1970-01-04 | user: bread three\n- 1970-01-02 | user: bread one"
        )
        assert await recall(one, "bread") == "- 1970-01-04 | user: bread three"
        assert "two" in await recall(one, "bread", in_prompt=0)


async def test_what_fits_much_worse_than_the_best_is_left_out(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("a", "porto trip hotel tram", ""), ("b", "the tram was late", ""), ("c", "tram again", ""))
        assert await recall(one, "porto trip hotel tram") == "- 1970-01-02 | user: porto trip hotel tram"


async def test_scripts_without_spaces_are_found(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("a", "我喜欢喝绿茶", "好的"), ("b", "今天天气", "晴"))
        assert await recall(one, "绿茶在哪里") == "- 1970-01-02 | user: 我喜欢喝绿茶 | assistant: 好的"


async def test_recall_is_bounded_and_shows_the_place_that_fits(store_url: str) -> None:
    async with process(store_url) as one:
        filler = "so much other talk " * 100
        await had(one, *((f"s{number}", f"{filler} porto {number} {filler}", f"{filler} porto") for number in range(9)))
        text = await recall(one, "porto")
        assert len(text) <= MAX_CHARS
        assert len(text.split("\n")) == 5
        assert all(line.count("porto") == 2 for line in text.split("\n"))


async def test_only_ones_own_turns_are_recalled(store_url: str) -> None:
    async with process(store_url) as one:
        await one.users.add("bob")
        await had(one, ("a", "bread", "rye"))
        assert await BuiltinRecall(one.memory).prefetch("bread", user="bob", session="now") == ""


async def test_only_the_kept_turns_are_looked_at(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("a", "bread", "rye"), ("a", "milk", "oat"))
        narrow = BuiltinRecall(one.memory, turns_kept=1)
        assert await narrow.prefetch("bread", user=USER, session="now") == ""


async def test_search_says_where_it_was(store_url: str) -> None:
    async with process(store_url) as one:
        await had(one, ("a", "bread", "rye"), ("b", "milk", "oat"))
        [found] = await BuiltinRecall(one.memory).search("bread", user=USER, session="now")
        assert (found.session, found.turn) == ("a", 1)
        assert found.score > 0
