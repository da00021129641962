"""``web_search``: asks the configured services in order until one answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.errors import InvalidRequest, Permanent, RateLimited, Retryable
from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.foreign import marked
from hermes_tasks.tools.searching.port import Hit, SearchBackend

#: How long a service that wants to be left alone is left alone, when it does not say, and at most.
_REST_S: Final = 60.0
_MOST_REST_S: Final = 600.0
_OFF: Final = (
    "web search is switched off (tools.search = none), so nothing was searched; use web_fetch with an address you know"
)
_log = get_logger(__name__)


class SearchWebArguments(Arguments):
    """See :class:`WebSearch`."""

    query: str = Field(min_length=1, max_length=400, description="What to search for.")
    limit: int = Field(default=5, ge=1, le=20, description="Most results.")


class WebSearch:
    """Searches the web. Reading has no effect, so it may be repeated after a crash.

    Args:
        backends: asked in this order until one answers; none = not offered, and a call says so.
        rest_s: how long a service that wants to be left alone is left alone when it does not say.
    """

    name, toolset, idempotent = "web_search", "web", True

    def __init__(self, backends: Sequence[SearchBackend], *, rest_s: float = _REST_S) -> None:
        self._backends, self._rest_s = backends, rest_s
        self._resting: dict[str, float] = {}
        self.available = bool(backends)

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Search the web; read a result with web_fetch.", SearchWebArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Title, address and snippet of each result, or what became of each service that was asked."""
        wanted = read(SearchWebArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        if not self._backends:
            return ToolOutput(_OFF, error=True)
        failed: list[str] = []
        try:
            async with asyncio.timeout(max(1.0, context.seconds_left - 1)):
                for backend in self._backends:
                    found = await self._asked(backend, wanted)
                    if not isinstance(found, str):
                        return await _shown(backend.name, found)
                    failed.append(f"{backend.name}: {found}")
        except TimeoutError:
            failed.append("the run has no time left")
        why = "; ".join(failed)
        text = f"no search backend could be reached: {why}. Nothing was searched: say so, or fetch an address you know"
        return ToolOutput(text, error=True)

    async def _asked(self, backend: SearchBackend, wanted: SearchWebArguments) -> Sequence[Hit] | str:
        """The results, or why there are none."""
        left = self._resting.get(backend.name, 0.0) - time.monotonic()
        if left > 0:
            return f"asked to be left alone for {left:.0f} s more"
        try:
            return await backend.search(wanted.query, wanted.limit)
        except InvalidRequest as error:
            told, reason = "its key cannot be read", str(error)  # the reason names a file of this machine
        except (Retryable, Permanent) as error:
            told = reason = str(error)
            if isinstance(error, RateLimited):
                rest = error.retry_after.total_seconds() if error.retry_after else self._rest_s
                self._resting[backend.name] = time.monotonic() + min(rest, _MOST_REST_S)
        _log.warning("search backend failed", backend=backend.name, reason=reason)
        return told


async def _shown(name: str, hits: Sequence[Hit]) -> ToolOutput:
    if not hits:
        return ToolOutput(f"nothing found ({name})")
    text = "\n\n".join("\n".join(filter(None, (hit.title, hit.url, hit.snippet))) for hit in hits)
    return ToolOutput(await marked(f"{len(hits)} results of {name}", text))
