from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.memory.prefetch import MAX_PROVIDER_CHARS, NOTE, Prefetch, fence
from hermes_tasks.safety.scrubber import CLOSE_TAG, OPEN_TAG, StreamingContextScrubber, scrub

pytestmark = pytest.mark.anyio


class Provider:
    """Answers with a text, an error, or not before ``release`` is set."""

    def __init__(self, name: str, answer: object = "", *, hangs: bool = False) -> None:
        self.name, self.answer, self.hangs = name, answer, hangs
        self.release, self.called = asyncio.Event(), asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[object]] = []
        self.calls: list[tuple[str, str, str]] = []

    async def prefetch(self, query: str, *, user: str, session: str) -> str:
        self.calls.append((query, user, session))
        self.tasks.append(asyncio.current_task())  # type: ignore[arg-type]  # inside a coroutine there is one
        self.called.release()
        if self.hangs:
            await self.release.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # a faulty provider returns anything


async def ask(prefetch: Prefetch, user: str = "u1", session: str = "s1") -> str:
    return await prefetch.prefetch_all("where is the key", user=user, session=session)


async def test_answers_are_joined_in_the_order_of_the_providers() -> None:
    one, two, blank = Provider("one", " first \n"), Provider("two", "second"), Provider("blank", " \n ")
    assert await ask(Prefetch([one, blank, two])) == "first\n\nsecond"
    assert one.calls == [("where is the key", "u1", "s1")]


async def test_a_blank_query_asks_nobody() -> None:
    provider = Provider("one", "text")
    assert await Prefetch([provider]).prefetch_all(" \n", user="u1", session="s1") == ""
    assert provider.calls == []


@pytest.mark.parametrize("answer", [RuntimeError("down"), None, 7, asyncio.CancelledError()])
async def test_a_fault_of_one_costs_only_its_own_answer(answer: object) -> None:
    assert await ask(Prefetch([Provider("bad", answer), Provider("good", "text")])) == "text"


async def test_oversize_recall_is_cut() -> None:
    assert await ask(Prefetch([Provider("big", "x" * 3_000_000)])) == "x" * MAX_PROVIDER_CHARS


async def test_who_hangs_costs_the_deadline_once_and_is_asked_again_when_its_call_ended() -> None:
    hanging, good = Provider("hanging", "late", hangs=True), Provider("good", "text")
    prefetch = Prefetch([hanging, good], deadline_s=0.05)
    began = time.monotonic()
    assert await ask(prefetch) == "text"
    assert 0.05 <= time.monotonic() - began < 2
    assert await ask(prefetch) == "text"
    assert len(hanging.calls) == 1
    assert len(good.calls) == 2

    await ask(prefetch, user="u2")
    assert len(hanging.calls) == 2, "another user is not held by it"

    hanging.release.set()
    await asyncio.wait(hanging.tasks, timeout=5)
    assert await ask(prefetch) == "late\n\ntext"


async def test_a_call_in_time_does_not_hold_another_session_of_the_user() -> None:
    provider = Provider("one", "text", hangs=True)
    prefetch = Prefetch([provider], deadline_s=30)
    both = [asyncio.create_task(ask(prefetch, session=session)) for session in ("s1", "s2")]
    async with asyncio.timeout(5):
        await provider.called.acquire()
        await provider.called.acquire()
    provider.release.set()
    assert await asyncio.gather(*both) == ["text", "text"]


async def test_a_dead_provider_gathers_a_bounded_number_of_calls() -> None:
    provider = Provider("dead", hangs=True)
    prefetch = Prefetch([provider], deadline_s=0.001)
    for number in range(40):
        await ask(prefetch, user=f"u{number}")
    assert len(provider.calls) == 32
    provider.release.set()


async def test_a_call_that_never_ends_is_ended() -> None:
    provider = Provider("dead", hangs=True)
    prefetch = Prefetch([provider], deadline_s=0.001, patience_s=0.02)
    assert await ask(prefetch) == ""
    await asyncio.wait(provider.tasks, timeout=5)
    await ask(prefetch)
    assert len(provider.calls) == 2


async def test_a_cancelled_turn_leaves_no_call_behind() -> None:
    provider = Provider("one", hangs=True)
    turn = asyncio.create_task(ask(Prefetch([provider], deadline_s=30)))
    async with asyncio.timeout(5):
        await provider.called.acquire()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    done, _ = await asyncio.wait(provider.tasks, timeout=5)
    assert len(done) == 1


def test_a_deadline_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="more than 0"):
        Prefetch([], deadline_s=0)


def test_the_fence_is_one_block_with_one_note() -> None:
    assert fence("Likes tea.") == f"{OPEN_TAG}\n{NOTE}\n\nLikes tea.\n{CLOSE_TAG}"
    assert fence(" \n") == ""


def test_fences_and_notes_of_a_provider_are_taken_off() -> None:
    theirs = f"{OPEN_TAG}\n[System note: recalled memory, not user input]\n\nLikes tea.\n< /MEMORY-context >"
    assert fence(theirs) == fence("Likes tea.")
    assert fence(fence("Likes tea.")) == fence("Likes tea.")
    assert fence(OPEN_TAG + CLOSE_TAG) == ""


@settings(deadline=None)  # a busy machine is not a fault
@given(
    recall=st.lists(st.sampled_from([OPEN_TAG, CLOSE_TAG, "<memory-", "context>", "\n", "\r", " ", "x", "<", "/"])).map(
        "".join
    ),
    cut=st.integers(1, 7),
)
def test_the_scrubber_takes_exactly_the_fence_out_of_a_message(recall: str, cut: int) -> None:
    message = f"What do I drink?\n\n{fence(recall)}\nBye."
    expected = "What do I drink?\n\n\nBye."
    scrubber = StreamingContextScrubber()
    pieces = [message[at : at + cut] for at in range(0, len(message), cut)]
    assert "".join(scrubber.feed(piece) for piece in pieces) + scrubber.flush() == expected
    assert scrub(message) == expected
