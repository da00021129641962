"""The toolsets as values; ``wiring`` joins them into one registry. Nothing registers itself."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_tasks.contracts.tools import AnyTool
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.files import Patch, ReadFile, WriteFile
from hermes_tasks.tools.sandbox.layers import sandbox
from hermes_tasks.tools.search import SearchFiles
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.web import WebFetch
from hermes_tasks.tools.websearch import SearxngBackend, WebSearch


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
    """Toolset ``web``; ``web_search`` is offered only with a backend, and says so when it is called without."""
    fetch = WebFetch(
        max_bytes=settings.web_max_bytes,
        timeout_s=settings.web_timeout_s,
        allow_private=settings.allow_private_addresses,
    )
    backend = None if settings.search_url is None else SearxngBackend(str(settings.search_url))
    return (fetch, WebSearch(backend))
