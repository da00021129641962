"""``search_files``: a bounded search by pattern over the workspace. Links are never followed."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.confined import Outside
from hermes_tasks.tools.files import on_disk, text_of

_MAX_FILES: Final = 5_000
_MAX_HITS: Final = 100
_MAX_LINE: Final = 200
_MAX_SECONDS: Final = 5.0


class SearchArguments(Arguments):
    """See :class:`SearchFiles`."""

    pattern: str = Field(default="", max_length=500, description="Text that a line must contain; empty = list files.")
    glob: str = Field(default="*", max_length=200, description="Which files, such as *.py.")


class SearchFiles:
    """Finds lines that contain a text, or lists files."""

    name, toolset, idempotent = "search_files", "file", True

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Find lines in the files of your workspace, or list the files.", SearchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """``file:line: text`` per hit, at most 100, within 5 s."""
        wanted = read(SearchArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        return await on_disk("the workspace", lambda: _search(context.workspace, wanted))


def _search(workspace: Path, wanted: SearchArguments) -> ToolOutput:
    # Plain text, no regular expression of the model's: one of those can take for ever on one line.
    hits: list[str] = []
    needle = re.compile(re.escape(wanted.pattern), re.IGNORECASE)
    deadline = time.monotonic() + _MAX_SECONDS
    looked = 0
    for name in _names(workspace, wanted.glob):
        looked += 1
        if looked > _MAX_FILES or len(hits) >= _MAX_HITS or time.monotonic() > deadline:
            hits.append(f"[stopped after {looked - 1} files and {len(hits)} hits; narrow the pattern or the glob]")
            break
        if not wanted.pattern:
            hits.append(name)
            continue
        try:
            text = text_of(workspace, name)
        except (Outside, OSError):
            continue  # too large, no text, or gone meanwhile
        hits += [
            f"{name}:{number}: {line[:_MAX_LINE]}"
            for number, line in enumerate(text.splitlines(), 1)
            if needle.search(line)
        ][: _MAX_HITS - len(hits)]
    return ToolOutput("\n".join(hits) if hits else "nothing found")


def _names(workspace: Path, glob: str) -> Iterator[str]:
    for folder, folders, files in os.walk(workspace, followlinks=False):
        folders.sort()
        for file in sorted(files):
            name = os.path.relpath(Path(folder) / file, workspace)
            if fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(file, glob):
                yield name
