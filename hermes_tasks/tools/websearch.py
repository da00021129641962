"""``web_search`` over a pluggable backend. It is offered only when a backend is configured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
from pydantic import Field

from hermes_tasks.contracts.errors import Permanent, Retryable
from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema

_TIMEOUT_S: Final = 15.0
_MAX_BYTES: Final = 2 * 1024 * 1024
_SNIPPET_CHARS: Final = 300
_NO_BACKEND: Final = (
    "no search backend is configured, so nothing was searched. The operator can set tools.search_url to the address "
    "of a SearXNG server whose settings list json under search.formats. Until then use web_fetch with a known address."
)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    snippet: str


class SearchBackend(Protocol):
    """Where a search is asked."""

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The best results, at most ``limit``.

        Raises:
            Retryable: it does not answer now.
            Permanent: it answered something else than results.
        """
        ...


class SearxngBackend:
    """A SearXNG server of the operator's, by its JSON interface. Its address is a setting, so it may be private."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """See :class:`SearchBackend`."""
        try:
            status, body = await self._asked(query)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise Retryable(f"the search server does not answer ({type(error).__name__})") from None
        if status == 403:
            raise Permanent("the search server refuses JSON answers: list json under search.formats in its settings")
        if status >= 500 or status == 429:
            raise Retryable(f"the search server answers {status}")
        found = _results(body) if status < 400 else None
        if found is None:
            raise Permanent(f"the search server answers {status} with no results object; check tools.search_url")
        return [
            Hit(str(hit.get("title") or ""), str(hit.get("url") or ""), str(hit.get("content") or "")[:_SNIPPET_CHARS])
            for hit in found[:limit]
        ]

    async def _asked(self, query: str) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(f"{self._base_url}/search", params={"q": query, "format": "json"}) as response,
        ):
            body = bytearray()
            async for piece in response.content.iter_chunked(65_536):
                body += piece
                if len(body) > _MAX_BYTES:
                    raise Permanent(f"the search server sends more than {_MAX_BYTES} bytes for one search")
            return response.status, bytes(body)


class SearchWebArguments(Arguments):
    """See :class:`WebSearch`."""

    query: str = Field(min_length=1, max_length=500, description="What to search for.")
    limit: int = Field(default=5, ge=1, le=20, description="Most results.")


class WebSearch:
    """Searches the web.

    Args:
        backend: where it is asked; None = none is configured: not offered, and a call says so.
    """

    name, toolset, idempotent = "web_search", "web", True

    def __init__(self, backend: SearchBackend | None) -> None:
        self._backend = backend
        self.available = backend is not None

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Search the web; read a result with web_fetch.", SearchWebArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Title, address and snippet of each result."""
        wanted = read(SearchWebArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        if self._backend is None:
            return ToolOutput(_NO_BACKEND, error=True)
        try:
            async with asyncio.timeout(max(1.0, context.seconds_left - 1)):
                hits = await self._backend.search(wanted.query, wanted.limit)
        except (Retryable, Permanent, TimeoutError) as error:
            reason = str(error) or "the run has no time left"
            return ToolOutput(f"not searched: {reason}. Say so, or fetch a known address", error=True)
        return ToolOutput("\n\n".join(f"{hit.title}\n{hit.url}\n{hit.snippet}" for hit in hits) or "nothing found")


def _results(body: bytes) -> list[Mapping[str, Any]] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    results = found.get("results") if isinstance(found, dict) else None
    if not isinstance(results, list):
        return None
    return [hit for hit in results if isinstance(hit, dict)]
