"""Replacing one passage of a text, and saying where it is when it is not where the caller thinks. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

_CANDIDATES: Final = 3
_LINES_COMPARED: Final = 5_000
_PREVIEW: Final = 120
_ALIKE: Final = 0.6
_FEED: Final = "\n"
_RETURN: Final = "\r\n"


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
    if "\r" not in old + new:  # who reads lines does not see how they end: what ends with CR LF stays so
        if not places:
            old, new = old.replace(_FEED, _RETURN), new.replace(_FEED, _RETURN)
            places = _places(text, old)
        elif _FEED not in old and _mostly_returns(text):
            new = new.replace(_FEED, _RETURN)
    if len(places) == 1:
        at = places[0]
        return Changed(text[:at] + new + text[at + len(old) :], _line(text, at))
    if places:
        lines = ", ".join(str(_line(text, at)) for at in places[:10])
        return f"the old text occurs {len(places)} times (lines {lines}); give more of what stands around it"
    return f"the old text was not found. {_nearest(text.replace(_RETURN, _FEED), passage.old)}"


def _mostly_returns(text: str) -> bool:
    return 2 * text.count(_RETURN) > text.count(_FEED)


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
    """Where the text comes closest to ``old``, judged by its first line with anything in it."""
    wanted = old.split("\n")
    skipped = next((number for number, line in enumerate(wanted) if line.strip()), 0)
    first = wanted[skipped].strip()[:_PREVIEW]
    lines = text.split("\n")
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines[:_LINES_COMPARED], 1):
        numbers.setdefault(line.strip()[:_PREVIEW], number)
    near = difflib.get_close_matches(first, [line for line in numbers if line], n=_CANDIDATES, cutoff=_ALIKE)
    if not near:
        return "No line is like its first line: read the file again"
    if near[0] != first:
        return "Lines like its first line: " + "; ".join(f"{numbers[line]}: {line}" for line in near)
    alike = numbers[first]
    return f"It begins like line {alike}, {_difference(lines, wanted, alike - skipped)}"


def _difference(lines: list[str], wanted: list[str], at: int) -> str:
    """The first difference of what was wanted to the lines from ``at`` on; spaces and tabs can be told apart."""
    for number, line in enumerate(wanted, at):
        if not 0 < number <= len(lines):
            return "but there are not as many lines around that"
        there = lines[number - 1]
        same = there == line or (number == at and there.endswith(line))
        if not same and not (number == at + len(wanted) - 1 and there.startswith(line)):
            return f"but line {number} is {there[:_PREVIEW]!r}, not {line[:_PREVIEW]!r}"
    return "and differs from it in how lines end"
