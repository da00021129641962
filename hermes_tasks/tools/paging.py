"""Numbered lines of a text, a page at a time, however large it is and however long its lines are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

#: How far into a file pages go.
SCANNED_BYTES: Final = 64 * 1024 * 1024
_MAX_CHARS: Final = 15_000  # below what is cut into head and tail, so that the model pages instead
_MAX_LINE_BYTES: Final = 2_000
_PIECE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a text.

    Attributes:
        lines: ``number``, a tab, and the line without its end; as many as were wanted and fit.
        total: the lines of the text, as far as it was looked at.
        whole: it was looked at to its end.
        returns: one of these lines ends with CR LF.
    """

    lines: list[str]
    total: int
    whole: bool
    returns: bool


def page(stream: BinaryIO, first: int, most: int, *, scanned_bytes: int = SCANNED_BYTES) -> Page:
    """At most ``most`` lines from line ``first`` on; the first of them is there even if it is too long for a page."""
    lines: list[str] = []
    room, number, returns, full = _MAX_CHARS, 0, False, False
    for number, (line, length) in enumerate(_each_line(stream, scanned_bytes), 1):
        if number < first or full:
            continue
        text = line.removesuffix(b"\r")
        more = f" […{length - len(line)} bytes more]" if length > len(line) else ""
        told = f"{number}\t{text.decode(errors='replace')}{more}"
        room -= len(told) + 1
        full = len(lines) == most or (room < 0 and bool(lines))
        if not full:
            lines.append(told)
            returns = returns or text != line
    return Page(lines, number, not stream.read(1), returns)


def _each_line(stream: BinaryIO, left: int) -> Iterator[tuple[bytes, int]]:
    """(the beginning, the length) of each line without its line feed; no more than the beginning is held."""
    while left > 0 and (line := stream.readline(_MAX_LINE_BYTES)):
        length, piece = len(line), line
        while not piece.endswith(b"\n") and length < left and (piece := stream.readline(_PIECE_BYTES)):
            length += len(piece)
        left -= length
        yield line.removesuffix(b"\n"), length - piece.endswith(b"\n")
