"""The toolsets as values; ``wiring`` joins them into one registry. Nothing registers itself."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_tasks.contracts.tools import AnyTool
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.files import Patch, ReadFile, WriteFile
from hermes_tasks.tools.sandbox.layers import sandbox
from hermes_tasks.tools.search import SearchFiles
from hermes_tasks.tools.searching.brave import Brave
from hermes_tasks.tools.searching.duckduckgo import DuckDuckGo
from hermes_tasks.tools.searching.port import SearchBackend
from hermes_tasks.tools.searching.searxng import Searxng
from hermes_tasks.tools.searching.tavily import Tavily
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.web import WebFetch
from hermes_tasks.tools.websearch import WebSearch


def file_tools() -> Sequence[AnyTool]:
    """Toolset ``file``."""
    return (ReadFile(), WriteFile(), Patch(), SearchFiles())


def terminal_tools(settings: ToolSettings) -> Sequence[AnyTool]:
    """Toolset ``terminal``; it is offered only where no layer of the sandbox is missing, or none was asked for."""
    terminal = Terminal(
        timeout_s=settings.terminal_timeout_s,
        output_chars=settings.terminal_output_chars,
        network=settings.terminal_network,
        layers=sandbox if settings.sandbox == "auto" else None,
    )
    return (terminal,)


def web_tools(settings: ToolSettings) -> Sequence[AnyTool]:
    """Toolset ``web``; ``web_search`` is not offered where it is switched off, and says so when it is called."""
    fetch = WebFetch(
        max_bytes=settings.web_max_bytes,
        timeout_s=settings.web_timeout_s,
        allow_private=settings.allow_private_addresses,
    )
    return (fetch, WebSearch([_backend(service, settings) for service in settings.search_services]))


def _backend(service: str, settings: ToolSettings) -> SearchBackend:
    match service:
        case "searxng":
            return Searxng(str(settings.search_url))
        case "tavily":
            return Tavily(settings.tavily_url, lambda: settings.search_key(service))
        case "brave":
            return Brave(settings.brave_url, lambda: settings.search_key(service))
        case _:
            return DuckDuckGo(settings.duckduckgo_url)
