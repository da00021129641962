"""Words of a text as search terms, and how much each says. Pure; knows no language but a few English small words.

Scripts without spaces (Chinese, Japanese, Korean) are cut into pairs of neighbouring characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_CJK: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_RUNS: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK: Final = re.compile(rf"[{_CJK}]")
_STOP: Final = frozenset(
    "about all also an and any are as at be been but by can could did do does for from get had has have he her hi his "
    "how if in into is it its just let like me my no not of ok on or our out please she should so some tell than thanks "
    "that the their them then there these they this to us was we were what when where which who why will with would "
    "yes you your".split()
)


def terms(text: str) -> frozenset[str]:
    """The distinct terms of a text. Letter case and compatibility forms do not count; neither do small words."""
    found: set[str] = set()
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).casefold()):
        if _IS_CJK.match(run):
            found.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif (len(run) > 1 or run.isdigit()) and run not in _STOP:
            found.add(run)
    return frozenset(found)


def weights(wanted: Iterable[str], documents: Sequence[frozenset[str]]) -> Mapping[str, float]:
    """How much each wanted term says, by how few documents have it; those that nearly all or none have say nothing."""
    counts = Counter(term for document in documents for term in document)
    total = len(documents)
    says = {}
    for term in wanted:
        having = counts[term]
        everywhere = total >= 10 and having > total / 2
        if having and not everywhere:
            says[term] = math.log(1 + total / having)
    return says
