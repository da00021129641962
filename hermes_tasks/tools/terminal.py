"""The toolset ``terminal``: one command at a time, in the workspace, with limits and a clean environment.

Three layers stand between a command and the machine: the approval rules refuse the plainly dangerous, the runner takes
environment, descriptors, privileges and time away, and the file system keeps an unprivileged user out of other
people's files. Nothing here hides the network or other readable files; that is the sandbox's part.
"""

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
from hermes_tasks.tools.confined import Outside
from hermes_tasks.tools.files import content_of
from hermes_tasks.tools.output import Output
from hermes_tasks.tools.workspace import tool_uid

_RUNNER: Final = Path(__file__).with_name("runner.py")
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
#: Reading on costs the worker time; nothing a model reads is this long.
_FLOOD_BYTES: Final = 64 * _MIB
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
        if "\0" in wanted.command:
            return ToolOutput("not run: a command cannot hold a NUL character", error=True)
        if (why := await asyncio.to_thread(_refused, wanted.command, context.workspace)) is not None:
            return ToolOutput(f"denied, and not run: {why}. Nobody can approve it here; find another way", error=True)
        limit = max(1.0, min(wanted.timeout_s or self._timeout_s, self._timeout_s, context.seconds_left - 1))
        return await self._run(wanted.command, context.workspace, limit)

    async def _run(self, command: str, workspace: Path, limit: float) -> ToolOutput:
        output = Output(self._output_chars)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(_RUNNER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            env={"PATH": _PATH, "LANG": "C.UTF-8"},
            start_new_session=True,  # a signal for the worker's terminal is not for the command
        )
        try:
            async with asyncio.timeout(limit):
                await _ask(process, _question(command, workspace, limit))
                if not await _listen(process, output):
                    return ToolOutput(f"killed: it printed more than {_FLOOD_BYTES} bytes\n{output.text()}", error=True)
                code = await process.wait()
        except TimeoutError:
            return ToolOutput(f"killed after {limit:.0f} s\n{output.text()}", error=True)
        finally:
            await _end(process)
        return ToolOutput(f"exit code {code}\n{output.text()}", error=code != 0)


def _refused(command: str, workspace: Path) -> str | None:
    def script(path: str) -> str | None:
        try:
            return content_of(workspace, path).decode(errors="replace")
        except (Outside, OSError):
            return None  # no script of this workspace

    return refused(command, script, workspace)


def _question(command: str, workspace: Path, limit: float) -> Mapping[str, Any]:
    uid = tool_uid()
    own_user = {} if uid is None else {"RLIMIT_NPROC": _PROCESSES}
    return {
        "command": command,
        "cwd": str(workspace),
        "env": {"PATH": _PATH, "HOME": str(workspace), "LANG": "C.UTF-8", "TERM": "dumb"},
        "uid": uid,
        "limits": {**_LIMITS, **own_user, "RLIMIT_CPU": int(limit) + 5},
    }


async def _ask(process: asyncio.subprocess.Process, question: Mapping[str, Any]) -> None:
    assert process.stdin is not None  # noqa: S101 - it was asked for above
    process.stdin.write(json.dumps(question).encode() + b"\n")
    await process.stdin.drain()


async def _listen(process: asyncio.subprocess.Process, output: Output) -> bool:
    """Read until the command closes its output; False when there is no end of it."""
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    while piece := await process.stdout.read(65_536):
        output.add(piece)
        if output.total > _FLOOD_BYTES:
            return False
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    """Cut the life line: the runner kills what is left and ends."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_KILL_S):
            await process.wait()
    except TimeoutError:
        process.kill()  # the command dies with it: it has asked the kernel for that
        await process.wait()
