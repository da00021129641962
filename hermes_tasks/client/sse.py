"""Server-sent events out of bytes that arrive in pieces."""

from __future__ import annotations

import json
from typing import Any, Final

from hermes_tasks.client.words import Event

#: Most characters of one event; what is longer is not a stream of ours.
_MOST: Final = 64 * 1024 * 1024


class EventParser:
    """Cut where you like, what comes out is the same. One parser serves one connection.

    Lines end at CR, LF or both, and at nothing else: the separators that ``str.splitlines`` knows may stand in a text.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._type = ""
        self._data: list[str] = []

    @property
    def last_id(self) -> str:
        """The last id seen, also that of a frame without data."""
        return self._id

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that ``chunk`` completes.

        Raises:
            ValueError: it is not a stream of JSON events.
        """
        data = self._rest + chunk
        if len(data) > _MOST:
            raise ValueError("an event is too long")
        # A CR at the very end may be half of a CR LF: it waits for what comes next.
        held = b"\r" if data.endswith(b"\r") else b""
        lines = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + held
        return [event for line in lines if (event := self._line(line.decode())) is not None]

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            self._id = value
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        return None

    def _dispatch(self) -> Event | None:
        kind, data = self._type or "message", "\n".join(self._data)
        self._type = ""
        self._data.clear()
        if not data:
            return None
        value: Any = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError("an event's data is not an object")  # noqa: TRY004 - of the stream, not of our caller
        return Event(self._id, kind, value)
