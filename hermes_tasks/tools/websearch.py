"""``web_search`` over a pluggable backend. It is offered only when a backend is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema

_TIMEOUT_S: Final = 15.0
_SNIPPET_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    snippet: str


class SearchBackend(Protocol):
    """Where a search is asked."""

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The best results.

        Raises:
            OSError, aiohttp.ClientError, ValueError: it cannot be reached, or its answer cannot be read.
        """
        ...


class SearxngBackend:
    """A SearXNG instance of the operator's, by its JSON interface. Its address is a setting, so it may be private."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """See :class:`SearchBackend`."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            asked = {"q": query, "format": "json"}
            async with session.get(f"{self._base_url}/search", params=asked) as response:
                response.raise_for_status()
                found = await response.json(content_type=None)
        return [
            Hit(str(hit.get("title", "")), str(hit.get("url", "")), str(hit.get("content", ""))[:_SNIPPET_CHARS])
            for hit in found["results"][:limit]
        ]


class SearchWebArguments(Arguments):
    """See :class:`WebSearch`."""

    query: str = Field(min_length=1, max_length=500, description="What to search for.")
    limit: int = Field(default=5, ge=1, le=20, description="Most results.")


class WebSearch:
    """Searches the web."""

    name, toolset, idempotent = "web_search", "web", True

    def __init__(self, backend: SearchBackend) -> None:
        self._backend = backend

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Search the web; read a result with web_fetch.", SearchWebArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Title, address and snippet of each result."""
        wanted = read(SearchWebArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        try:
            hits = await self._backend.search(wanted.query, wanted.limit)
        except (OSError, aiohttp.ClientError, ValueError, KeyError, asyncio.TimeoutError) as error:
            text = f"the search backend cannot be used ({type(error).__name__}); say so, or fetch a known address"
            return ToolOutput(text, error=True)
        if not hits:
            return ToolOutput("nothing found")
        return ToolOutput("\n\n".join(f"{hit.title}\n{hit.url}\n{hit.snippet}" for hit in hits))
