"""``read_result``: the whole of a result that was too long for the prompt, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.store.runs import Runs
from hermes_tasks.tools.arguments import Arguments, read, schema

_PIECE: Final = 12_000


class ReadResultArguments(Arguments):
    """See :class:`ReadResult`."""

    pointer: str = Field(min_length=1, max_length=300, description="As given where the text was cut: result:…")
    offset: int = Field(default=0, ge=0, description="First character.")


class ReadResult:
    """Reads long results of the user's own runs."""

    name, toolset, idempotent = "read_result", "results", True

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        text = f"Read more of a tool result that was cut, {_PIECE} characters at a time."
        return schema(self.name, text, ReadResultArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """The piece from ``offset`` on, and where the next begins."""
        wanted = read(ReadResultArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        text = await self._runs.read_long(context.run.user, wanted.pointer)
        if text is None:
            return ToolOutput(f"there is no {wanted.pointer}; it is kept for seven days", error=True)
        end = wanted.offset + _PIECE
        more = f"\n[{len(text) - end} characters follow, from offset {end}]" if end < len(text) else ""
        return ToolOutput(text[wanted.offset : end] + more if wanted.offset < len(text) else "(behind the end)")
