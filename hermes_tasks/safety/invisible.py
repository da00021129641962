"""Characters nobody sees: which ones hide something, and which ones are ordinary writing.

Joiners are part of many emoji and of Persian and Indic words; paired direction marks stand around names and phone
numbers. Those are exempt. Everything else of the seventeen can smuggle text past a reader.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

INVISIBLE: Final = frozenset(
    "\u200b\u200c\u200d\u2060\u2062\u2063\u2064\ufeff"  # zero widths, joiners, invisible operators
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # embeddings, overrides, isolates
)
_ZWNJ, _ZWJ, _BOM = "\u200c", "\u200d", "\ufeff"
_MAX_NAME: Final = 80
#: An embedding or isolate, what it wraps, and its own end. Overrides (202D, 202E) reorder what is read: never exempt.
_WRAPPED: Final = re.compile(
    rf"[\u202a\u202b]([^\u202a-\u202e\u2066-\u2069\r\n]{{1,{_MAX_NAME}}})\u202c"
    rf"|[\u2066-\u2068]([^\u202a-\u202e\u2066-\u2069\r\n]{{1,{_MAX_NAME}}})\u2069"
)
_ANY: Final = re.compile(f"[{''.join(sorted(INVISIBLE))}]")
_EMOJI_EXTRAS: Final = "\ufe0f\u20e3"  # emoji presentation, keycap
#: First and last code point of scripts whose spelling uses joiners.
_JOINING_SCRIPTS: Final = (
    (0x0600, 0x07FF),  # Arabic and its neighbours, Syriac, N'Ko
    (0x0840, 0x0DFF),  # Mandaic, Arabic extended, the Indic blocks, Sinhala
    (0x0F00, 0x109F),  # Tibetan, Myanmar
    (0x1780, 0x18AF),  # Khmer, Mongolian
    (0xFB50, 0xFDFF),
    (0xFE70, 0xFEFC),  # Arabic presentation forms
)


def suspicious(text: str) -> frozenset[str]:
    """The invisible characters of ``text`` that are not ordinary writing."""
    if not INVISIBLE.intersection(text):
        return frozenset()
    return frozenset(text[place] for place in _suspicious_places(text))


def strip_suspicious(text: str) -> str:
    """``text`` without the invisible characters that are not ordinary writing."""
    if not INVISIBLE.intersection(text):
        return text
    places = set(_suspicious_places(text))
    return "".join(char for place, char in enumerate(text) if place not in places)


def strip_all(text: str) -> str:
    """``text`` without any of the seventeen, so that none of them can part a word that is looked for."""
    return _ANY.sub("", text)


def _suspicious_places(text: str) -> list[int]:
    exempt = {place for match in _WRAPPED.finditer(text) for place in (match.start(), match.end() - 1)}
    found = (match.start() for match in _ANY.finditer(text))
    return [place for place in found if place not in exempt and not _is_writing(text, place)]


def _is_writing(text: str, place: int) -> bool:
    char = text[place]
    if char == _BOM:
        return place == 0  # the mark at the head of a file
    if char not in (_ZWNJ, _ZWJ) or place == 0:
        return False
    before, after = text[place - 1], text[place + 1 : place + 2]
    if char == _ZWJ and _is_emoji(before) and after and _is_emoji(after):
        return True
    return _joins(before) and (not after or after not in INVISIBLE)


def _is_emoji(char: str) -> bool:
    code = ord(char)
    return char in _EMOJI_EXTRAS or 0x1F000 <= code <= 0x1FAFF or (0x2190 <= code <= 0x2BFF and _is_symbol(char))


def _is_symbol(char: str) -> bool:
    return unicodedata.category(char) in ("So", "Sm")


def _joins(char: str) -> bool:
    code = ord(char)
    return any(first <= code <= last for first, last in _JOINING_SCRIPTS)
