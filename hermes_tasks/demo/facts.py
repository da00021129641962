"""Facts a user told about themselves, found by the patterns of the script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: Longer ones are no facts but stories.
MAX_CHARS: Final = 200
_SENTENCE: Final = re.compile(r"[^.!?\n]*[.!?\n]?")
_CLAUSE: Final = re.compile(r",? and (?=(?:I|my)\b)")


@dataclass(frozen=True, slots=True)
class FactPattern:
    """What a fact looks like, the document it belongs to, and the entry made of it."""

    pattern: re.Pattern[str]
    target: str
    entry: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry for one document."""

    target: str
    entry: str


def facts_in(texts: Iterable[str], patterns: Sequence[FactPattern]) -> list[Fact]:
    """The facts in ``texts``, in order, each once. A question tells nothing."""
    found: dict[Fact, None] = {}
    for text in texts:
        for sentence in _SENTENCE.findall(text):
            if not sentence.endswith("?"):
                for clause in _CLAUSE.split(sentence):
                    found.update(dict.fromkeys(_in_clause(clause, patterns)))
    return list(found)


def _in_clause(clause: str, patterns: Sequence[FactPattern]) -> list[Fact]:
    placed: list[tuple[int, int, Fact]] = []
    for kind in patterns:
        for match in kind.pattern.finditer(clause):
            start, end = match.span()
            if any(start < taken_end and taken_start < end for taken_start, taken_end, _ in placed):
                continue
            entry = kind.entry.format(**{name: text.strip() for name, text in match.groupdict().items()})
            if len(entry) <= MAX_CHARS:
                placed.append((start, end, Fact(kind.target, entry)))
    return [fact for _, _, fact in sorted(placed, key=lambda place: place[:2])]
