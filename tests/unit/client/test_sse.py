"""Events out of bytes, however they are cut."""

from __future__ import annotations

import pytest

from hermes_tasks.client import Event
from hermes_tasks.client.sse import EventParser

STREAM = (
    b"retry: 500\nid: 1-0\n\n"
    b": a comment\n\n"
    b'id: 2-0\nevent: text\ndata: {"text": "a\\nb"}\n\n'
    b'id:3-0\r\nevent:turn.ended\r\ndata:{"a":\r\ndata: 1}\r\n\r\n'
    b"id: 4-0\revent: x\rdata: {}\r\r"
    + 'id: 5-0\nevent: text\ndata: {"text": "\u2028 \x85 \x0b é"}\n\n'.encode()
    + b'data: {"no": "type"}\n\n'
    b'id: 6-0\ndata: {"cut": "off"}\n'
)
EVENTS = [
    Event("2-0", "text", {"text": "a\nb"}),
    Event("3-0", "turn.ended", {"a": 1}),
    Event("4-0", "x", {}),
    Event("5-0", "text", {"text": "\u2028 \x85 \x0b é"}),
    Event("5-0", "message", {"no": "type"}),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_the_cut_does_not_matter(size: int) -> None:
    # \x0b must be escaped inside JSON; the parser's lines are what is looked at here.
    stream = STREAM.replace(b"\x0b", b"\\u000b")
    parser = EventParser()
    found = [event for i in range(0, len(stream), size) for event in parser.feed(stream[i : i + size])]
    assert found == EVENTS
    assert parser.last_id == "6-0"


def test_a_frame_without_data_gives_a_place() -> None:
    parser = EventParser()
    assert parser.feed(b"id: 9-1\n\n") == []
    assert parser.last_id == "9-1"


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: []\n\n", b"data: \xff\n\n"])
def test_what_is_no_event_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        EventParser().feed(data)
