"""Keeps the recalled block, which the model sees inside its copy of a message, out of what a user reads.

A block is an open tag that stands alone at a line start and ends its line, and everything up to the close tag.
A tag in the middle of a sentence is ordinary text: people may talk about it.
"""

from __future__ import annotations

import re
from typing import Final

OPEN_TAG: Final = "<memory-context>"
CLOSE_TAG: Final = "</memory-context>"

_NAME: Final = "memory-context"
_MAX_BLANKS: Final = 8  # blanks a sloppy echo may put inside the brackets; a bound, so that little is ever held back
_LINE_ENDS: Final = "\r\n"
_UNDECIDED: Final = -1
_NO_TAG: Final = 0
_BLANKS: Final = rf"[ \t]{{0,{_MAX_BLANKS}}}"
_ANY_TAG: Final = re.compile(rf"<(?={_BLANKS}/?{_BLANKS}{_NAME}{_BLANKS}>)", re.IGNORECASE | re.ASCII)


def scrub(text: str) -> str:
    """``text`` without its recalled blocks: exactly what a stream of it would have shown."""
    scrubber = StreamingContextScrubber()
    return scrubber.feed(text) + scrubber.flush()


def fenced(text: str) -> str:
    """``text`` as one recalled block. Tags inside it lose their bracket, so nothing can end the block early."""
    harmless = _ANY_TAG.sub("(", text)
    return f"{OPEN_TAG}\n{harmless}\n{CLOSE_TAG}"


class StreamingContextScrubber:
    """Removes recalled blocks from a text that arrives in pieces.

    What comes out, put together, does not depend on how the text was cut. Text outside a block is never changed and
    is held back only while it may still be the beginning of a tag. One scrubber serves one stream.
    """

    def __init__(self) -> None:
        self._held = ""
        self._in_block = False
        self._at_line_start = True

    def reset(self) -> None:
        """Forget everything, as for a new stream. Harmless when called twice."""
        self._held = ""
        self._in_block = False
        self._at_line_start = True

    def feed(self, text: str) -> str:
        """What of ``text``, and of what was held back before, may be shown now."""
        data, self._held = self._held + text, ""
        shown: list[str] = []
        position = 0
        while position < len(data):
            bracket = data.find("<", position)
            if bracket < 0:
                self._pass(data[position:], shown)
                break
            self._pass(data[position:bracket], shown)
            end = _tag_end(data, bracket, closing=self._in_block)
            if end == _UNDECIDED or self._waits_for_line_end(data, end):
                self._held = data[bracket:]
                break
            position = self._after_bracket(data, bracket, end, shown)
        return "".join(shown)

    def flush(self) -> str:
        """The end of the stream: what was held back, or nothing if a block was never closed.

        An answer cut inside a block loses its rest: that is better than showing the block. A second call gives "".
        """
        held, self._held = self._held, ""
        if self._in_block:
            self._in_block = False
            return ""
        shown: list[str] = []
        self._pass(held, shown)
        return "".join(shown)

    def _waits_for_line_end(self, data: str, end: int) -> bool:
        return not self._in_block and self._at_line_start and end == len(data)

    def _after_bracket(self, data: str, bracket: int, end: int, shown: list[str]) -> int:
        """Deal with a decided ``<``; where to go on."""
        if end == _NO_TAG:
            self._pass("<", shown)
            return bracket + 1
        if self._in_block:
            self._in_block = False
            return end
        if self._at_line_start and data[end] in _LINE_ENDS:
            self._in_block = True
            return end
        self._pass(data[bracket:end], shown)
        return end

    def _pass(self, text: str, shown: list[str]) -> None:
        """Show ``text`` unless it is inside a block. Only shown text moves the line start."""
        if self._in_block or not text:
            return
        shown.append(text)
        after_line_end = max(text.rfind("\n"), text.rfind("\r")) + 1
        starts_here = self._at_line_start or after_line_end > 0
        self._at_line_start = starts_here and not text[after_line_end:].strip()


def _tag_end(data: str, start: int, *, closing: bool) -> int:
    """Where the tag that begins at ``start`` ends; ``_NO_TAG`` if it is none, ``_UNDECIDED`` if ``data`` is too short.

    Compared character by character: folding the case of the whole text would shift its indexes, since some
    characters (a dotted capital I) become two.
    """
    position = _skip_blanks(data, start + 1)
    for expected in f"/{_NAME}" if closing else _NAME:
        if position >= len(data):
            return _UNDECIDED
        if data[position] not in (expected, expected.upper()):
            return _NO_TAG
        position += 1
        if expected == "/":
            position = _skip_blanks(data, position)
    position = _skip_blanks(data, position)
    if position >= len(data):
        return _UNDECIDED
    return position + 1 if data[position] == ">" else _NO_TAG


def _skip_blanks(data: str, position: int) -> int:
    last = position + _MAX_BLANKS
    while position < min(last, len(data)) and data[position] in " \t":
        position += 1
    return position
