"""``search_files``: a bounded search over the workspace, in a process of its own (``searcher``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.aside import answer_of
from hermes_tasks.tools.confined import Outside, parts_of
from hermes_tasks.tools.workspace import tool_uid

_SEARCHER: Final = Path(__file__).with_name("searcher.py")
_MAX_FILES: Final = 5_000
_MAX_HITS: Final = 100
_MAX_SECONDS: Final = 8.0
_GRACE_S: Final = 2.0


class SearchArguments(Arguments):
    """See :class:`SearchFiles`."""

    pattern: str = Field(
        default="", max_length=500, description="Regular expression that a line must match; empty = list the files."
    )
    glob: str = Field(default="*", max_length=200, description="Which files, such as *.py.")
    path: str = Field(default=".", max_length=1000, description="Directory to search below, or one file.")


class SearchFiles:
    """Finds lines that match a pattern, or lists files. Links are never followed.

    Args:
        seconds: the longest a search may take.
    """

    name, toolset, idempotent = "search_files", "file", True

    def __init__(self, *, seconds: float = _MAX_SECONDS) -> None:
        self._seconds = seconds

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Find lines in the files of your workspace, or list the files.", SearchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """``file:line: text`` per hit, at most 100."""
        wanted = read(SearchArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        try:
            seconds = max(1.0, min(self._seconds, context.seconds_left - _GRACE_S))
            question = await asyncio.to_thread(_question, wanted, context.workspace, seconds)
        except Outside as error:
            return ToolOutput(str(error), error=True)
        except OSError as error:
            return ToolOutput(f"the workspace cannot be used ({error.strerror})", error=True)
        found = await answer_of(_SEARCHER, question, seconds + _GRACE_S)
        if found is None:
            return ToolOutput(f"no answer within {seconds:.0f} s: use a simpler pattern, a glob or a path", error=True)
        if "error" in found:
            return ToolOutput(str(found["error"]), error=True)
        lines = list(found["hits"])
        if found["stopped"] is not None:
            lines.append(f"[stopped after {found['stopped']} files and {len(lines)} hits; narrow it by glob or path]")
        return ToolOutput("\n".join(lines) or "nothing found")


def _question(wanted: SearchArguments, workspace: Path, seconds: float) -> Mapping[str, Any]:
    return {
        "root": os.path.realpath(workspace),
        "below": "/".join(parts_of(wanted.path, workspace)),
        "pattern": wanted.pattern,
        "glob": wanted.glob,
        "uid": tool_uid(workspace),
        "seconds": seconds,
        "most_hits": _MAX_HITS,
        "most_files": _MAX_FILES,
    }
