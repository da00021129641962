"""The interface of a search service, and what its results look like."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from yarl import URL

_TITLE_CHARS: Final = 200
_SNIPPET_CHARS: Final = 300
_MOST_CHARS: Final = 2_000
#: What services put around words that were searched for. Other tags stay: ``vector<int>`` is text.
_MARKUP: Final = re.compile(r"</?(?:b|br|em|i|mark|span|strong)\b[^<>]*>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: its title and snippet are single lines without markup, its address is http or https."""

    title: str
    url: str
    snippet: str


class SearchBackend(Protocol):
    """A search service."""

    @property
    def name(self) -> str:
        """As in the setting ``tools.search``."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The best results, at most ``limit``, each address once.

        Raises:
            RateLimited: it wants to be left alone for a while.
            Retryable: it does not answer now.
            Permanent: it refuses us, or answers something else than results.
            InvalidRequest: its key cannot be read.
        """
        ...


def hits(found: Iterable[tuple[Any, Any, Any]], limit: int) -> list[Hit]:
    """The first ``limit`` of the triples (title, address, snippet) with a web address that did not come before."""
    kept: dict[str, Hit] = {}
    for title, address, snippet in found:
        if len(kept) == limit:
            break
        if (url := _web_address(address)) is not None:
            name = _line(title, _TITLE_CHARS) or url.host or ""
            kept.setdefault(str(url).rstrip("/"), Hit(name, str(url), _line(snippet, _SNIPPET_CHARS)))
    return list(kept.values())


def _web_address(value: Any) -> URL | None:
    try:
        url = URL(value) if isinstance(value, str) and len(value) <= _MOST_CHARS else URL()
    except ValueError:
        return None
    return url.with_fragment(None) if url.scheme in ("http", "https") and url.host else None


def _line(value: Any, most: int) -> str:
    text = value[:_MOST_CHARS] if isinstance(value, str) else ""
    return " ".join(html.unescape(_MARKUP.sub("", text)).split())[:most]
