"""What a command prints: the beginning and the end of it, as text a model can read."""

from __future__ import annotations

import re
from typing import Final

_HEAD_SHARE: Final = 0.4
#: Colours, cursor movements, window titles.
_CONTROL: Final = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0e-\x1a]"
)
_LINE_SEARCH: Final = 2_000


class Output:
    """Keeps the beginning and the end of a stream of bytes, however long it gets.

    Args:
        most_bytes: of both together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._head_size = int(most_bytes * _HEAD_SHARE)
        self._tail_size = most_bytes - self._head_size
        self._head, self._tail = b"", b""
        self.total = 0

    def add(self, piece: bytes) -> None:
        """The next bytes of the stream."""
        self.total += len(piece)
        room = self._head_size - len(self._head)
        self._head += piece[:room]
        self._tail = (self._tail + piece[max(0, room) :])[-self._tail_size :]

    def text(self) -> str:
        """What is kept, with a note of what is not. Cut between lines, so that no half of a secret stays unmasked."""
        head, tail = self._head, self._tail
        if self.total > len(head) + len(tail):
            head = head[: _end_of_last_line(head)]
            tail = tail[_begin_of_next_line(tail) :]
            left_out = self.total - len(head) - len(tail)
            head += f"\n[… {left_out} bytes left out …]\n".encode()
        return _CONTROL.sub(b"", head + tail).decode(errors="replace").strip() or "(no output)"


def _end_of_last_line(head: bytes) -> int:
    at = head.rfind(b"\n", len(head) - _LINE_SEARCH) if len(head) > _LINE_SEARCH else head.rfind(b"\n")
    return at if at >= 0 else len(head)


def _begin_of_next_line(tail: bytes) -> int:
    return tail.find(b"\n", 0, _LINE_SEARCH) + 1
