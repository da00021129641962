"""Looks for text that tries to steer an agent or to carry secrets away; answers with ids of the patterns it met.

Three scopes, each containing the one before: ``all`` (safe for any text), ``context`` (files, memory and tool results
that enter a prompt), ``strict`` (what is kept for good). Two more stand beside them: ``job`` for the prompt a user
writes for a scheduled job, ``phrases`` for data that such a job gathered, where quoting a command is no crime.

The patterns are words. They warn of the plain attempt and stop the copied one; they do not understand a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

from hermes_tasks.safety import invisible
from hermes_tasks.safety.threat_patterns import PATTERNS, Scope

MAX_SCAN_CHARS: Final = 65_536
INVISIBLE_ID: Final = "invisible_unicode_U+"

__all__ = ["INVISIBLE_ID", "MAX_SCAN_CHARS", "Scope", "scan"]


def scan(text: str, scope: Scope) -> tuple[str, ...]:
    """Ids of the patterns found in the first 65,536 characters, in a fixed order; empty when there is none.

    An invisible character that is not ordinary writing gives ``invisible_unicode_U+XXXX``, except in ``phrases``:
    gathered data is stripped of them instead (:func:`hermes_tasks.safety.invisible.strip_suspicious`).
    """
    head = text[:MAX_SCAN_CHARS]
    return (*_invisible_ids(head, scope), *_pattern_ids(head, scope))


def _invisible_ids(head: str, scope: Scope) -> Iterator[str]:
    if scope is not Scope.PHRASES:
        yield from (f"{INVISIBLE_ID}{ord(char):04X}" for char in sorted(invisible.suspicious(head)))


def _pattern_ids(head: str, scope: Scope) -> Iterator[str]:
    """Looked for in the NFKC form, where full-width letters are letters, and without what could part a word."""
    plain = invisible.strip_all(unicodedata.normalize("NFKC", head))
    plain = plain[: 2 * MAX_SCAN_CHARS]  # a ligature may become eighteen letters
    yield from (id for id, expression in _compiled(scope) if expression.search(plain))


@cache
def _compiled(scope: Scope) -> tuple[tuple[str, re.Pattern[str]], ...]:
    wanted = (pattern for pattern in PATTERNS if scope in pattern.scopes)
    return tuple((pattern.id, re.compile(pattern.expression, re.IGNORECASE)) for pattern in wanted)
