"""The toolset ``file``: read_file, write_file, patch and search_files, confined to the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.confined import Outside, parts_of, read_bytes, write_bytes

MAX_BYTES: Final = 2 * 1024 * 1024
_MAX_LINES: Final = 2000


class ReadArguments(Arguments):
    """See :class:`ReadFile`."""

    path: str = Field(description="File in the workspace.")
    offset: int = Field(default=1, ge=1, description="First line, counted from 1.")
    limit: int = Field(default=_MAX_LINES, ge=1, le=_MAX_LINES, description="Most lines.")


class WriteArguments(Arguments):
    """See :class:`WriteFile`."""

    path: str = Field(description="File in the workspace; directories are made.")
    content: str = Field(description="The whole new content.")


class PatchArguments(Arguments):
    """See :class:`Patch`."""

    path: str = Field(description="File in the workspace.")
    old: str = Field(min_length=1, description="Text that occurs exactly once.")
    new: str = Field(description="What takes its place.")


class ReadFile:
    """Reads lines of a text file."""

    name, toolset, idempotent = "read_file", "file", True

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Read a text file of your workspace; lines are numbered.", ReadArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """The numbered lines, and how many there are."""
        wanted = read(ReadArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        return await on_disk(wanted.path, lambda: _lines(context.workspace, wanted))


class WriteFile:
    """Replaces a file. The same call again leaves the same file, so it may be repeated after a crash."""

    name, toolset, idempotent = "write_file", "file", True

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Write a file of your workspace, replacing what it held.", WriteArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """How much was written."""
        wanted = read(WriteArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        data = wanted.content.encode(errors="surrogatepass")
        if len(data) > MAX_BYTES:
            return ToolOutput(f"not written: {len(data)} bytes, {MAX_BYTES} are allowed; write it in parts", error=True)

        def write() -> ToolOutput:
            write_bytes(context.workspace, _file_parts(wanted.path, context.workspace), data)
            return ToolOutput(f"wrote {wanted.path} ({len(data)} bytes)")

        return await on_disk(wanted.path, write)


class Patch:
    """Replaces one passage of a file."""

    name, toolset, idempotent = "patch", "file", False

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        text = "Replace one passage of a text file. The old text must occur exactly once: give enough of it."
        return schema(self.name, text, PatchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """What was replaced; nothing is written when the old text is missing or ambiguous."""
        wanted = read(PatchArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        return await on_disk(wanted.path, lambda: _patched(context.workspace, wanted))


async def on_disk(path: str, work: Callable[[], ToolOutput]) -> ToolOutput:
    """Do blocking work on files in a thread; what goes wrong is told without naming anything outside."""
    try:
        return await asyncio.to_thread(work)
    except Outside as error:
        return ToolOutput(str(error), error=True)
    except FileNotFoundError:
        return ToolOutput(f"{path} does not exist in the workspace", error=True)
    except IsADirectoryError:
        return ToolOutput(f"{path} is a directory", error=True)
    except OSError as error:
        return ToolOutput(f"cannot use {path}: {error.strerror or 'the file system refused'}", error=True)


def _file_parts(path: str, workspace: Path) -> tuple[str, ...]:
    parts = parts_of(path, workspace)
    if not parts:
        raise Outside("that is the workspace itself; name a file in it")
    return parts


def text_of(workspace: Path, path: str) -> str:
    """The text of a file.

    Raises:
        Outside: it is too large, or not text.
    """
    data, size = read_bytes(workspace, _file_parts(path, workspace), MAX_BYTES)
    if size > MAX_BYTES:
        raise Outside(f"{path} has {size} bytes, {MAX_BYTES} can be read; use search_files or the terminal")
    if b"\0" in data[:8192]:
        raise Outside(f"{path} is not text ({size} bytes)")
    return data.decode(errors="replace")


def _lines(workspace: Path, wanted: ReadArguments) -> ToolOutput:
    lines = text_of(workspace, wanted.path).splitlines()
    chosen = lines[wanted.offset - 1 : wanted.offset - 1 + wanted.limit]
    if not chosen and lines:
        return ToolOutput(f"{wanted.path} has {len(lines)} lines; offset {wanted.offset} is behind its end", error=True)
    shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(chosen, wanted.offset))
    last = wanted.offset + len(chosen) - 1
    more = f"\n[lines {wanted.offset} to {last} of {len(lines)}]" if len(chosen) < len(lines) else ""
    return ToolOutput(shown + more if lines else "(empty file)")


def _patched(workspace: Path, wanted: PatchArguments) -> ToolOutput:
    text = text_of(workspace, wanted.path)
    count = text.count(wanted.old)
    if count != 1:
        what = "was not found" if count == 0 else f"occurs {count} times: give more of what stands around it"
        where = ", ".join(str(n) for n, line in enumerate(text.splitlines(), 1) if wanted.old.splitlines()[0] in line)
        lines = f" (its first line stands in lines {where[:200]})" if where else ""
        return ToolOutput(f"not changed: the old text {what}{lines}", error=True)
    changed = text.replace(wanted.old, wanted.new)
    write_bytes(workspace, _file_parts(wanted.path, workspace), changed.encode())
    return ToolOutput(f"changed {wanted.path}: one passage replaced")
