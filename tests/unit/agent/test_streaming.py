"""Text on its way to a reader."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.agent.streaming import TextStream
from hermes_tasks.agent.together import together
from hermes_tasks.contracts.errors import LeaseLost, StoreUnavailable
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.safety.scrubber import scrub

pytestmark = pytest.mark.anyio


class Reader:
    def __init__(self) -> None:
        self.notes: list[ProgressNote] = []
        self.got = asyncio.Event()

    async def tell(self, note: ProgressNote) -> None:
        self.notes.append(note)
        self.got.set()

    @property
    def text(self) -> str:
        return "".join(note.text for note in self.notes)


async def test_the_first_piece_does_not_wait_for_the_end() -> None:
    reader = Reader()
    stream = TextStream(3, reader.tell)
    pump = asyncio.create_task(stream.pump())
    await stream.feed("Hello")
    async with asyncio.timeout(5):
        await reader.got.wait()
    assert reader.notes == [ProgressNote(kind="text", step=3, text="Hello")]
    stream.end()
    await pump


async def test_pieces_that_come_together_are_one_event() -> None:
    reader = Reader()
    stream = TextStream(0, reader.tell)
    pump = asyncio.create_task(stream.pump())
    for number in range(500):
        await stream.feed(f"{number} ")
        await asyncio.sleep(0)
    stream.end()
    await pump
    assert reader.text == "".join(f"{number} " for number in range(500)) == stream.text
    assert len(reader.notes) < 50


async def test_a_slow_reader_does_not_slow_the_provider() -> None:
    released = asyncio.Event()
    told: list[str] = []

    async def slow(note: ProgressNote) -> None:
        await released.wait()
        told.append(note.text)

    stream = TextStream(0, slow)
    pump = asyncio.create_task(stream.pump())
    for _ in range(100):
        await stream.feed("x")
        await asyncio.sleep(0)
    stream.end()
    assert not told
    released.set()
    await pump
    assert "".join(told) == "x" * 100


async def test_a_restart_is_told_only_to_those_who_saw_something() -> None:
    reader = Reader()
    stream = TextStream(0, reader.tell)
    await stream.feed("<mem")
    await stream.restart()
    assert reader.notes == []
    pump = asyncio.create_task(stream.pump())
    await stream.feed("whole")
    stream.end()
    await pump
    assert reader.text == "whole"
    await stream.restart()
    assert reader.notes[-1].kind == "step_restarted"
    assert stream.text == ""


BLOCK = "Before\n<memory-context>\nSECRET\n</memory-context>\nafter, with < and <b>.\n"


@given(st.lists(st.integers(0, len(BLOCK)), max_size=12))
def test_the_shown_text_does_not_depend_on_the_pieces(cuts: list[int]) -> None:
    async def shown() -> str:
        reader = Reader()
        stream = TextStream(0, reader.tell)
        places = [0, *sorted(cuts), len(BLOCK)]
        for start, end in itertools.pairwise(places):
            await stream.feed(BLOCK[start:end])
        stream.end()
        await stream.pump()
        return reader.text

    assert asyncio.run(shown()) == scrub(BLOCK)


async def test_together_raises_the_first_failure_as_itself_and_ends_the_rest() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await together(waits(), fails())
    assert ended == ["waits"]


async def test_together_prefers_the_failure_that_forbids_writing() -> None:
    async def away() -> None:
        await asyncio.sleep(0)
        raise StoreUnavailable("away")

    async def lost() -> None:
        await asyncio.sleep(0)
        raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        await together(away(), lost())
