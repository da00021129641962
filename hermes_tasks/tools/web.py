"""``web_fetch``: a page of the public web as readable text."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
from pydantic import Field
from yarl import URL

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.aside import answer_of
from hermes_tasks.tools.foreign import marked
from hermes_tasks.tools.guard import GuardedResolver, Lookup, Refused, checked_url

_PAGE_READER: Final = Path(__file__).with_name("pagereader.py")
#: Pages that one process turns into text at once; each may take a core and a gigabyte.
_AT_ONCE: Final = 4
_REDIRECTS: Final = 5
_MOVED: Final = (301, 302, 303, 307, 308)
_TEXT_CHARS: Final = 50_000
_SHOWN_CHARS: Final = 300
_PLAIN: Final = ("application/json", "application/xml", "application/javascript", "application/x-ndjson")
_SUFFIXES: Final = ("+json", "+xml")  # application/xhtml+xml among them
_PACKINGS: Final = ("", "identity", "gzip", "deflate")
_HEADERS: Final = {
    "User-Agent": "hermes-tasks",
    "Accept": "text/html, text/plain, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}


class FetchArguments(Arguments):
    """See :class:`WebFetch`."""

    url: str = Field(min_length=1, max_length=4000, description="An http or https address.")


class WebFetch:
    """Fetches a page. Reading has no effect, so it may be repeated after a crash.

    Args:
        max_bytes: of a body, unpacked; the rest is not read.
        timeout_s: for everything, redirects and the reading of the page included.
        allow_private: also loopback and private networks; for tests and local deployments only.
        lookup: resolves names; None = the system's resolver.
    """

    name, toolset, idempotent = "web_fetch", "web", True

    def __init__(
        self, *, max_bytes: int, timeout_s: float, allow_private: bool = False, lookup: Lookup | None = None
    ) -> None:
        self._max_bytes, self._timeout_s = max_bytes, timeout_s
        self._allow_private, self._lookup = allow_private, lookup
        self._reading = asyncio.Semaphore(_AT_ONCE)

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Read a page of the public web as text.", FetchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """The text of the page, or why it was not read."""
        wanted = read(FetchArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        limit = max(1.0, min(self._timeout_s, context.seconds_left - 1))
        try:
            async with asyncio.timeout(limit):
                return await self._fetched(wanted.url, limit)
        except TimeoutError:
            return ToolOutput(f"{wanted.url[:_SHOWN_CHARS]} was not read within {limit:.0f} s", error=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            told = " ".join(str(cause).split())[:_SHOWN_CHARS]
            return ToolOutput(f"not fetched: {told or type(cause).__name__}", error=True)

    async def _fetched(self, text: str, limit: float) -> ToolOutput:
        resolver = GuardedResolver(allow_private=self._allow_private, lookup=self._lookup)
        connector = aiohttp.TCPConnector(
            resolver=resolver, use_dns_cache=False, family=socket.AF_UNSPEC, force_close=True
        )
        async with aiohttp.ClientSession(connector=connector, headers=_HEADERS, trust_env=False) as session:
            url = checked_url(text, allow_private=self._allow_private)
            for _ in range(_REDIRECTS + 1):
                async with session.get(url, allow_redirects=False) as response:
                    place = response.headers.get("Location")
                    if response.status not in _MOVED or place is None:
                        return await self._read(response, url, limit)
                url = checked_url(str(url.join(URL(place))), allow_private=self._allow_private)
        raise Refused(f"more than {_REDIRECTS} redirects")

    async def _read(self, response: aiohttp.ClientResponse, url: URL, limit: float) -> ToolOutput:
        kind, shown = response.content_type, str(url)[:_SHOWN_CHARS]
        if not (kind.startswith("text/") or kind in _PLAIN or kind.endswith(_SUFFIXES)):
            return ToolOutput(f"{shown} is {kind}; only text, HTML, JSON and XML can be read", error=True)
        if (packing := response.headers.get("Content-Encoding", "").strip().lower()) not in _PACKINGS:
            return ToolOutput(f"{shown} is packed as {packing[:40]}, which was not asked for", error=True)
        body = bytearray()
        async for piece in response.content.iter_chunked(65_536):
            body += piece
            if len(body) > self._max_bytes:
                break
        question = {
            "kind": kind,
            "charset": response.charset,
            "whole": len(body) <= self._max_bytes,
            "url": str(url),
            "seconds": limit,
            "most_chars": _TEXT_CHARS,
        }
        response.close()  # what comes now takes its time; nothing more is read
        async with self._reading:
            found = await answer_of(_PAGE_READER, question, limit, body=bytes(body[: self._max_bytes]), packages=True)
        if found is None:
            return ToolOutput(f"{shown} could not be turned into text: too large, too deep or broken", error=True)
        if "error" in found:
            return ToolOutput(f"{shown} cannot be read: {found['error']}", error=True)
        notes = [] if question["whole"] else [f"only its first {self._max_bytes} bytes were read"]
        if found["chars"] > _TEXT_CHARS:
            notes.append(f"these are the first {_TEXT_CHARS} of {found['chars']} characters")
        text = await marked(f"{shown} ({response.status})", found["text"] or "(no readable text)", notes)
        return ToolOutput(text, error=response.status >= 400)
