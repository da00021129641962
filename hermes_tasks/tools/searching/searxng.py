"""A SearXNG server of the operator's, by its JSON interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hermes_tasks.contracts.errors import Permanent, Retryable
from hermes_tasks.tools.searching.http import ask, dicts, json_object
from hermes_tasks.tools.searching.port import Hit, hits

_CHECK: Final = "tools.search_url"


class Searxng:
    """See :class:`~hermes_tasks.tools.searching.port.SearchBackend`."""

    name = "searxng"

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The results of all its engines; when there are none because its engines failed, that is said."""
        answer = await ask("GET", self._url, params={"q": query, "format": "json"})
        if answer.status == 403:
            raise Permanent("refuses JSON answers: list json under search.formats in its settings")
        found = json_object(answer.content(_CHECK), _CHECK)
        results = dicts(found.get("results"), _CHECK)
        silent = found.get("unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            raise Retryable(f"none of its engines answers ({len(silent)} failed); its own log says why")
        return hits(((hit.get("title"), hit.get("url"), hit.get("content")) for hit in results), limit)
