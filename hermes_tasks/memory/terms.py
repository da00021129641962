"""Words of a query as search terms, where they are found, and how much each says. Pure.

It knows no language but a few English small words. Scripts without spaces (Chinese, Japanese, Korean) are cut into
pairs of neighbouring characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_MOST: Final = 40
_CJK: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_RUNS: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK: Final = re.compile(rf"[{_CJK}]")
_SMALL_WORDS: Final = (
    "about all also an and any are as at be been but by can could did do does for from get had has have he her hi "
    "his how if in into is it its just let like me my no not of ok on or our out please she should so some tell than "
    "thanks that the their them then there these they this to us was we were what when where which who why will with "
    "would yes you your"
)
_STOP: Final = frozenset(_SMALL_WORDS.split())


def folded(text: str) -> str:
    """The text in the form in which it is compared: letter case and compatibility forms do not count."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def terms(text: str) -> tuple[str, ...]:
    """The distinct terms of a text without small words; of a long text the 40 longest."""
    found: set[str] = set()
    for run in _RUNS.findall(folded(text)):
        if _IS_CJK.match(run):
            found.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif (len(run) > 1 or run.isdigit()) and run not in _STOP:
            found.add(run)
    return tuple(sorted(found, key=lambda term: (-len(term), term))[:_MOST])


def found_in(text: str, wanted: Iterable[str]) -> frozenset[str]:
    """Those of the terms that a folded text has as words of their own.

    The text is searched for the terms instead of being cut into its own: a thousand turns are looked at per message.
    """
    return frozenset(term for term in wanted if term in text and _stands_alone(term, text))


def weights(documents: Sequence[frozenset[str]]) -> Mapping[str, float]:
    """How much each found term says, by how few documents have it; one that most of them have says nothing."""
    total = len(documents)
    counts = Counter(term for document in documents for term in document)
    return {term: math.log(1 + total / having) for term, having in counts.items() if total < 10 or having <= total / 2}


def _stands_alone(term: str, text: str) -> bool:
    if _IS_CJK.match(term):
        return True
    at = text.find(term)
    while at >= 0:
        if not (_in_word(text, at - 1) or _in_word(text, at + len(term))):
            return True
        at = text.find(term, at + 1)
    return False


def _in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at].isalnum() and not _IS_CJK.match(text[at])
