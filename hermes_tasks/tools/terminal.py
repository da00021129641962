"""The toolset ``terminal``: one command at a time, in the workspace, with limits and a clean environment."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.approvals import refused
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.workspace import tool_uid

_RUNNER: Final = Path(__file__).with_name("runner.py")
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_MIB: Final = 1024 * 1024
#: Read by the runner; NPROC counts all processes of the unprivileged user.
_LIMITS: Final = {
    "RLIMIT_AS": 2048 * _MIB,
    "RLIMIT_FSIZE": 256 * _MIB,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_NPROC": 512,
    "RLIMIT_CORE": 0,
}
_HEAD_SHARE: Final = 0.4
_KILL_S: Final = 3.0


class TerminalArguments(Arguments):
    """See :class:`Terminal`."""

    command: str = Field(min_length=1, max_length=20_000, description="A command line for sh.")
    timeout_s: int | None = Field(default=None, ge=1, description="Seconds until it is killed.")


class Terminal:
    """Runs a command.

    Args:
        timeout_s: the longest a command may take, and what it gets when the call does not say.
        output_chars: what the model sees of its output: the beginning and the end.
    """

    name, toolset, idempotent = "terminal", "terminal", False

    def __init__(self, *, timeout_s: int, output_chars: int) -> None:
        self._timeout_s, self._output_chars = timeout_s, output_chars

    def schema(self) -> Mapping[str, Any]:
        """The function's schema, with the limits in force."""
        text = (
            "Run a command with sh in your workspace. No input, no state between calls, a clean environment, at most "
            f"{self._timeout_s} s. Everything it started is ended with it: nothing goes on in the background."
        )
        return schema(self.name, text, TerminalArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Exit code and output; cancelling the coroutine kills everything the command started."""
        wanted = read(TerminalArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        if (why := refused(wanted.command)) is not None:
            return ToolOutput(f"denied, and not run: {why}. Nobody can approve it here; find another way", error=True)
        limit = max(1.0, min(wanted.timeout_s or self._timeout_s, self._timeout_s, context.seconds_left - 1))
        process = await self._start(wanted.command, context.workspace, limit)
        output = Output(self._output_chars)
        try:
            async with asyncio.timeout(limit):
                await output.fill(process)
                code = await process.wait()
        except TimeoutError:
            return ToolOutput(f"killed after {limit:.0f} s\n{output.text()}", error=True)
        finally:
            await _end(process)
        return ToolOutput(f"exit code {code}\n{output.text()}", error=code != 0)

    async def _start(self, command: str, workspace: Path, limit: float) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_RUNNER), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, cwd="/", env={"PATH": _PATH, "LANG": "C.UTF-8"},
        )  # fmt: skip
        asked = {
            "command": command,
            "cwd": str(workspace),
            "env": {"PATH": _PATH, "HOME": str(workspace), "LANG": "C.UTF-8", "TERM": "dumb"},
            "uid": tool_uid(),
            "limits": {**_LIMITS, "RLIMIT_CPU": int(limit) + 5},
        }
        assert process.stdin is not None  # noqa: S101 - it was asked for above
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        await process.stdin.drain()
        return process


class Output:
    """Keeps the beginning and the end of what a command prints, however much that is."""

    def __init__(self, most_chars: int) -> None:
        self._head_size = int(most_chars * _HEAD_SHARE)
        self._tail_size = most_chars - self._head_size
        self._head, self._tail = b"", b""
        self._total = 0

    async def fill(self, process: asyncio.subprocess.Process) -> None:
        """Read until the command closes its output."""
        assert process.stdout is not None  # noqa: S101 - it was asked for
        while piece := await process.stdout.read(65_536):
            self._total += len(piece)
            room = self._head_size - len(self._head)
            self._head += piece[:room]
            self._tail = (self._tail + piece[max(0, room) :])[-self._tail_size :]

    def text(self) -> str:
        """What is kept, with a note of what is not."""
        left_out = self._total - len(self._head) - len(self._tail)
        gap = f"\n[… {left_out} bytes left out …]\n".encode() if left_out > 0 else b""
        return (self._head + gap + self._tail).decode(errors="replace").strip() or "(no output)"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Cut the life line: the runner kills what is left and ends."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_KILL_S):
            await process.wait()
    except TimeoutError:
        process.kill()  # what it started dies with it: each has asked the kernel for that
        await process.wait()
