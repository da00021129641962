"""The toolset ``terminal``: one command at a time, in the workspace, with limits and a clean environment.

Three layers stand between a command and the machine: the approval rules refuse the plainly dangerous, the runner takes
environment, descriptors, privileges and time away, and where the worker is root, the kernel keeps the workspace's own
user out of other people's files and processes. Nothing here hides the network, what everybody may read, or, where the
worker is an ordinary user, that user's files; that is the sandbox's part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.approvals import refused
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.command import run_command
from hermes_tasks.tools.confined import Outside
from hermes_tasks.tools.files import content_of
from hermes_tasks.tools.output import Output
from hermes_tasks.tools.workspace import tool_uid

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_MIB: Final = 1024 * 1024
#: Read by the runner.
_LIMITS: Final = {
    "RLIMIT_AS": 2048 * _MIB,
    "RLIMIT_FSIZE": 256 * _MIB,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_CORE": 0,
}
#: Counts all processes of a user, so only where commands have a user of their own.
_PROCESSES: Final = 512
_FLOOD_BYTES: Final = 64 * _MIB


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
        if "\0" in wanted.command:
            return ToolOutput("not run: a command cannot hold a NUL character", error=True)
        if (why := await asyncio.to_thread(_refused, wanted.command, context.workspace)) is not None:
            return ToolOutput(f"denied, and not run: {why}. Nobody can approve it here; find another way", error=True)
        limit = max(1.0, min(wanted.timeout_s or self._timeout_s, self._timeout_s, context.seconds_left - 1))
        output = Output(self._output_chars)
        try:
            question = _question(wanted.command, context.workspace, limit)
        except OSError as error:
            return ToolOutput(f"not run: the workspace cannot be used ({error.strerror})", error=True)
        ended = await run_command(question, output, limit_s=limit, most_bytes=_FLOOD_BYTES)
        if ended.code is None:
            return ToolOutput(f"killed: {ended.killed}\n{output.text()}", error=True)
        return ToolOutput(f"exit code {ended.code}\n{output.text()}", error=ended.code != 0)


def _refused(command: str, workspace: Path) -> str | None:
    def script(path: str) -> str | None:
        try:
            return content_of(workspace, path).decode(errors="replace")
        except (Outside, OSError):
            return None  # no script of this workspace

    return refused(command, script, workspace)


def _question(command: str, workspace: Path, limit: float) -> Mapping[str, Any]:
    uid = tool_uid(workspace)
    own_user = {} if uid is None else {"RLIMIT_NPROC": _PROCESSES}
    return {
        "command": command,
        "cwd": str(workspace),
        "env": {"PATH": _PATH, "HOME": str(workspace), "LANG": "C.UTF-8", "TERM": "dumb"},
        "uid": uid,
        "limits": {**_LIMITS, **own_user, "RLIMIT_CPU": int(limit) + 5},
    }
