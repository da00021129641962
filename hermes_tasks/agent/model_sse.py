"""Server-sent events of a model's answer: bytes in, JSON objects out, within a bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

#: More than any model's output; beyond it the endpoint is not answering, it is filling our memory.
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024


class BrokenStream(ValueError):
    """The bytes are not a stream of JSON events. The text says why."""


class EndlessStream(BrokenStream):
    """The stream is longer than any answer."""


class EventReader:
    """Splits the bytes of one stream into events.

    Lenient where servers differ: ``data:`` lines count by themselves, a missing blank line between events, comments,
    empty events and CRLF are all fine. After ``[DONE]`` nothing more is read and :attr:`done` is true.
    """

    def __init__(self, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        self.done = False
        self._max_bytes = max_bytes
        self._size = 0
        self._line: list[bytes] = []
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The events completed by ``data``.

        Raises:
            BrokenStream: an event that is no JSON object.
            EndlessStream: more than ``max_bytes`` in all.
        """
        self.count(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join((*self._line, line))
            self._line.clear()
            yield from self._take(whole)
            if self.done:
                return
        if rest:
            self._line.append(rest)

    def count(self, data: bytes) -> None:
        """Count ``data`` towards the bound.

        Raises:
            EndlessStream: more than ``max_bytes`` in all.
        """
        self._size += len(data)
        if self._size > self._max_bytes:
            raise EndlessStream(f"it sent more than {self._max_bytes} bytes")

    def end(self) -> Iterator[dict[str, Any]]:
        """The event that an orderly end of the stream completes, if there is one.

        Raises:
            BrokenStream: the stream ended inside an event.
        """
        if not self.done:
            yield from self.feed(b"\n\n")

    def _take(self, line: bytes) -> Iterator[dict[str, Any]]:
        line = line.rstrip(b"\r")
        if not line:
            if self._pending:
                held, self._pending = b"\n".join(self._pending), []
                yield _parsed(held)
            return
        name, _, value = line.partition(b":")
        value = value.strip()
        if name != b"data" or not value:
            return
        if value == b"[DONE]" and not self._pending:
            self.done = True
            return
        # One event's JSON may be spread over several data lines; the usual single line need not wait for its end.
        if not self._pending:
            try:
                event = _parsed(value)
            except BrokenStream:
                self._pending.append(value)
            else:
                yield event
        else:
            self._pending.append(value)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        # Servers that cut their text by tokens send halves of characters: better one mark than no answer.
        event = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise BrokenStream(f"it sent an event that is not JSON: {data[:80]!r}") from error
    if not isinstance(event, dict):
        raise BrokenStream(f"it sent an event that is not a JSON object: {data[:80]!r}")
    return event
