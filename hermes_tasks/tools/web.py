"""``web_fetch``: a page of the public web as readable text."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp
import trafilatura
from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.guard import GuardedResolver, Lookup, Refused, check_literal, checked_url

_REDIRECTS: Final = 5
_MOVED: Final = (301, 302, 303, 307, 308)
_TEXT_CHARS: Final = 50_000
_HTML: Final = ("text/html", "application/xhtml+xml")
_PLAIN: Final = ("text/", "application/json", "application/xml", "application/rss+xml", "application/atom+xml")


class FetchArguments(Arguments):
    """See :class:`WebFetch`."""

    url: str = Field(min_length=1, max_length=4000, description="An http or https address.")


class WebFetch:
    """Fetches a page. Reading has no effect, so it may be repeated after a crash.

    Args:
        max_bytes: of a body; the rest is not read.
        timeout_s: for everything, redirects included.
        allow_private: for tests and local deployments only.
        lookup: resolves names; None = the system's resolver.
    """

    name, toolset, idempotent = "web_fetch", "web", True

    def __init__(
        self, *, max_bytes: int, timeout_s: float, allow_private: bool = False, lookup: Lookup | None = None
    ) -> None:
        self._max_bytes, self._timeout_s = max_bytes, timeout_s
        self._allow_private, self._lookup = allow_private, lookup

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Read a page of the public web as text.", FetchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """The text of the page, or why it was not read."""
        wanted = read(FetchArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        try:
            async with asyncio.timeout(max(1.0, min(self._timeout_s, context.seconds_left - 1))):
                return await self._fetched(wanted.url)
        except TimeoutError:
            return ToolOutput(f"{wanted.url} did not answer within {self._timeout_s:.0f} s", error=True)
        except (Refused, aiohttp.ClientError, OSError, ValueError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            return ToolOutput(f"not fetched: {str(cause) or type(cause).__name__}", error=True)

    async def _fetched(self, url: str) -> ToolOutput:
        resolver = GuardedResolver(allow_private=self._allow_private, lookup=self._lookup)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, family=socket.AF_UNSPEC)
        headers = {"User-Agent": "hermes-tasks", "Accept": "text/html, text/plain, application/json;q=0.9, */*;q=0.1"}
        async with aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False) as session:
            for _ in range(_REDIRECTS + 1):
                check_literal(urlsplit(checked_url(url)).hostname or "", allow_private=self._allow_private)
                async with session.get(url, allow_redirects=False) as response:
                    if response.status in _MOVED and "Location" in response.headers:
                        url = urljoin(url, response.headers["Location"])
                        continue
                    return await self._read(response, url)
        return ToolOutput(f"not fetched: more than {_REDIRECTS} redirects", error=True)

    async def _read(self, response: aiohttp.ClientResponse, url: str) -> ToolOutput:
        kind = response.content_type
        if not kind.startswith(_PLAIN) and kind not in _HTML:
            return ToolOutput(f"{url} is {kind}, which is no text", error=True)
        body = b""
        async for piece in response.content.iter_chunked(65_536):
            body += piece
            if len(body) > self._max_bytes:
                break
        cut = len(body) > self._max_bytes
        text = body[: self._max_bytes].decode(response.charset or "utf-8", errors="replace")
        readable = await asyncio.to_thread(_readable, text, kind)
        note = f"[cut after {self._max_bytes} bytes]\n" if cut else ""
        if len(readable) > _TEXT_CHARS:
            readable, note = readable[:_TEXT_CHARS], f"[the first {_TEXT_CHARS} of {len(readable)} characters]\n"
        ok = response.status < 400
        return ToolOutput(f"{url} ({response.status})\n{note}{readable or '(no text)'}", error=not ok)


def _readable(text: str, kind: str) -> str:
    if kind in _HTML:
        return trafilatura.extract(text, include_links=True, include_tables=True, output_format="markdown") or ""
    if kind == "application/json":
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
        except ValueError:
            return text
    return text
