"""Brave Search (api-dashboard.search.brave.com), with a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hermes_tasks.tools.searching.http import ask, dicts, json_object
from hermes_tasks.tools.searching.port import Hit, hits

_CHECK: Final = "tools.brave_key and tools.brave_url"
#: Its limit; longer queries are refused.
_MOST_WORDS: Final = 50


class Brave:
    """See :class:`~hermes_tasks.tools.searching.port.SearchBackend`.

    Args:
        key: called at each search.
    """

    name = "brave"

    def __init__(self, base_url: str, key: Callable[[], str]) -> None:
        self._url, self._key = f"{base_url.rstrip('/')}/res/v1/web/search", key

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Its results. An answer without the part ``web`` has found nothing."""
        headers = {"X-Subscription-Token": self._key(), "Accept": "application/json"}
        words = " ".join(query.split()[:_MOST_WORDS])
        params = {"q": words, "count": str(limit), "text_decorations": "false"}
        answer = await ask("GET", self._url, headers=headers, params=params)
        found = json_object(answer.content(_CHECK), _CHECK).get("web")
        results = dicts(found.get("results"), _CHECK) if isinstance(found, dict) else []
        return hits(((hit.get("title"), hit.get("url"), hit.get("description")) for hit in results), limit)
