"""The toolset ``file``: read_file, write_file and patch, confined to the workspace (search_files: ``search``).

Every tool is bounded: what is read is shown in pages, what is written or changed has at most two megabytes.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.confined import Outside, file_parts, opened, read_bytes, turn, write_bytes
from hermes_tasks.tools.paging import page
from hermes_tasks.tools.passages import Passage, replaced

MAX_BYTES: Final = 2 * 1024 * 1024
_MAX_LINES: Final = 2000
_HEAD_BYTES: Final = 8192
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
    old: str = Field(min_length=1, description="Text that occurs exactly once, without the line numbers of read_file.")
    new: str = Field(description="What takes its place.")


class ReadFile:
    """Reads lines of a text file."""

    name, toolset, idempotent = "read_file", "file", True

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        return schema(self.name, "Read a text file of your workspace; lines are numbered.", ReadArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """The numbered lines, and where to go on."""
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
        return await on_disk(wanted.path, lambda: _written(context.workspace, wanted))


class Patch:
    """Replaces one passage of a file."""

    name, toolset, idempotent = "patch", "file", False

    def schema(self) -> Mapping[str, Any]:
        """The function's schema."""
        text = "Replace one passage of a text file. The old text must occur exactly once: give enough of it."
        return schema(self.name, text, PatchArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Where it was replaced; nothing is written when the old text is missing or ambiguous."""
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
        return ToolOutput(f"cannot use {path[:200]}: {error.strerror or 'the file system refused'}", error=True)


def content_of(workspace: Path, path: str) -> bytes:
    """The bytes of a text file.

    Raises:
        Outside: it does not lie in the workspace, is too large, or is no text.
        OSError: it cannot be read.
    """
    data, size = read_bytes(workspace, file_parts(path, workspace), MAX_BYTES)
    _check_text(path, data[:_HEAD_BYTES])
    if size > MAX_BYTES:
        raise Outside(f"{path} has {size} bytes; only files up to {MAX_BYTES} can be changed here: use the terminal")
    return data


def _check_text(path: str, head: bytes) -> None:
    if head.startswith(_UTF16):
        raise Outside(f"{path} is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        raise Outside(f"{path} is binary, so it cannot be used as text")


def _lines(workspace: Path, wanted: ReadArguments) -> ToolOutput:
    with opened(workspace, file_parts(wanted.path, workspace)) as stream:
        _check_text(wanted.path, stream.read(_HEAD_BYTES))
        stream.seek(0)
        found = page(stream, wanted.offset, wanted.limit)
    if not found.total:
        return ToolOutput("(empty file)")
    total = f"{found.total}" if found.whole else f"more than {found.total}"
    if not found.lines:
        end = "its end" if found.whole else "what can be read here: use the terminal"
        return ToolOutput(f"{wanted.path} has {total} lines; offset {wanted.offset} is behind {end}", error=True)
    last = wanted.offset + len(found.lines) - 1
    notes = [f"lines {wanted.offset} to {last} of {total}"] if len(found.lines) < found.total else []
    notes += [f"go on with offset {last + 1}"] if last < found.total else []
    notes += ["they end with CR LF"] if found.returns else []
    return ToolOutput("\n".join(found.lines) + (f"\n[{'; '.join(notes)}]" if notes else ""))


def _written(workspace: Path, wanted: WriteArguments) -> ToolOutput:
    data = wanted.content.encode()
    if len(data) > MAX_BYTES:
        raise Outside(f"not written: {len(data)} bytes, {MAX_BYTES} are allowed; write it in parts")
    parts = file_parts(wanted.path, workspace)
    with turn(workspace):
        before = _text_before(workspace, wanted.path)
        if masked := _masks_in(wanted.content, before):
            raise Outside(
                f"not written: the content holds the mask of a secret ({masked[:60]!r}) where the file holds the "
                "secret itself, which would be lost; change the other lines with patch"
            )
        write_bytes(workspace, parts, data)
    lost = "\r\n" in before and "\r" not in wanted.content
    note = "; its lines ended with CR LF, now they end with LF" if lost else ""
    return ToolOutput(f"wrote {wanted.path} ({len(data)} bytes{note})")


def _text_before(workspace: Path, path: str) -> str:
    """The text of the file that is written over; empty when there is none."""
    try:
        return content_of(workspace, path).decode(errors="replace")
    except (Outside, OSError):
        return ""


def _masks_in(content: str, before: str) -> str | None:
    """A line of the new content that is a masked line of the old one, as read_file shows it."""
    shown = before.replace("\r\n", "\n")
    changed = set(mask_secrets(shown).split("\n")).difference(shown.split("\n"))
    return next((line for line in content.replace("\r\n", "\n").split("\n") if line in changed), None)


def _patched(workspace: Path, wanted: PatchArguments) -> ToolOutput:
    with turn(workspace):
        try:
            before = content_of(workspace, wanted.path).decode()
        except UnicodeDecodeError:
            raise Outside(f"{wanted.path} is not UTF-8, so a patch would damage it; use the terminal") from None
        after = replaced(before, Passage(wanted.old, wanted.new))
        if isinstance(after, str):
            return ToolOutput(f"not changed: {after}", error=True)
        data = after.text.encode()
        if len(data) > MAX_BYTES:
            raise Outside(f"not changed: it would have {len(data)} bytes, {MAX_BYTES} are allowed")
        write_bytes(workspace, file_parts(wanted.path, workspace), data)
    return ToolOutput(f"changed {wanted.path} at line {after.line}: one passage replaced")
