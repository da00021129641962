"""Tavily (docs.tavily.com), with a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hermes_tasks.contracts.errors import RateLimited
from hermes_tasks.tools.searching.http import ask, dicts, json_object
from hermes_tasks.tools.searching.port import Hit, hits

_CHECK: Final = "tools.tavily_key and tools.tavily_url"
#: The limit of the plan, and of what may be paid on top of it.
_USED_UP: Final = (432, 433)


class Tavily:
    """See :class:`~hermes_tasks.tools.searching.port.SearchBackend`.

    Args:
        key: called at each search.
    """

    name = "tavily"

    def __init__(self, base_url: str, key: Callable[[], str]) -> None:
        self._url, self._key = f"{base_url.rstrip('/')}/search", key

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Its results."""
        headers = {"Authorization": f"Bearer {self._key()}"}
        answer = await ask("POST", self._url, headers=headers, json={"query": query, "max_results": limit})
        if answer.status in _USED_UP:
            raise RateLimited(f"says that the plan of its key is used up ({answer.status})")
        found = json_object(answer.content(_CHECK), _CHECK)
        results = dicts(found.get("results"), _CHECK)
        return hits(((hit.get("title"), hit.get("url"), hit.get("content")) for hit in results), limit)
