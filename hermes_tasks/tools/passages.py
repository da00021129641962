"""Replacing one passage of a text, and saying where it is when it is not where the caller thinks. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

_CANDIDATES: Final = 3
_LINES_COMPARED: Final = 5_000
_PREVIEW: Final = 120
_ALIKE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Passage:
    """What is to be replaced, and by what."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The new text, and the line in which the passage began."""

    text: str
    line: int


def replaced(text: str, passage: Passage) -> Changed | str:
    """The text with the passage replaced, or in words why it was not: missing, more than once, or nothing to do."""
    old, new = passage.old, passage.new
    if old == new:
        return "the old and the new text are the same"
    places = _places(text, old)
    if not places and "\r\n" in text and "\r" not in old:
        # The file ends its lines with CR LF, which a reader of its lines does not see.
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        places = _places(text, old)
    if len(places) == 1:
        at = places[0]
        return Changed(text[:at] + new + text[at + len(old) :], _line(text, at))
    if places:
        lines = ", ".join(str(_line(text, at)) for at in places[:10])
        return f"the old text occurs {len(places)} times (lines {lines}); give more of what stands around it"
    return f"the old text was not found. {_nearest(text, passage.old)}"


def _places(text: str, old: str) -> list[int]:
    """Where ``old`` begins, overlaps included: "aa" in "aaa" is as ambiguous as it looks."""
    places: list[int] = []
    at = text.find(old)
    while at >= 0:
        places.append(at)
        at = text.find(old, at + 1)
    return places


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _nearest(text: str, old: str) -> str:
    """The lines most like the first line of ``old``."""
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")[:_LINES_COMPARED]
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        numbers.setdefault(line.strip()[:_PREVIEW], number)
    near = difflib.get_close_matches(first[:_PREVIEW], [line for line in numbers if line], n=_CANDIDATES, cutoff=_ALIKE)
    if not near:
        return "No line is like its first line: read the file again"
    return "Lines like its first line: " + "; ".join(f"{numbers[line]}: {line}" for line in near)
