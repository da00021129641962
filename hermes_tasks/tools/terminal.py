"""The toolset ``terminal``: one command at a time, in the workspace, with limits, a clean environment and a sandbox.

Approval rules refuse the plainly dangerous at once, and say why. What really holds a command is the sandbox: whatever
it says, it reaches its workspace, the machine's programs, and nothing else. Where a layer of it is missing the tool is
not offered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from hermes_tasks.contracts.tools import ToolContext, ToolOutput
from hermes_tasks.tools.approvals import refused
from hermes_tasks.tools.arguments import Arguments, read, schema
from hermes_tasks.tools.command import Question, run_command
from hermes_tasks.tools.confined import Outside
from hermes_tasks.tools.files import content_of
from hermes_tasks.tools.output import Output
from hermes_tasks.tools.sandbox.layers import Sandbox, sandbox
from hermes_tasks.tools.workspace import NOBODY, tool_uid

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TEMPORARY: Final = ".tmp"
#: Settings of the machine that may hold passwords are closed to commands, and these programs would stumble over that.
_NO_SETTINGS: Final = {"GIT_CONFIG_NOSYSTEM": "1", "PIP_CONFIG_FILE": "/dev/null", "SYSTEM_WGETRC": "/dev/null"}
_MIB: Final = 1024 * 1024
_LIMITS: Final = {
    "RLIMIT_AS": 2048 * _MIB,
    "RLIMIT_FSIZE": 256 * _MIB,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_CORE": 0,
}
#: Threads included. The kernel counts per user, so it is set only where commands have a user, or a user namespace, of
#: their own. A fork bomb of 512 kept the worker's event loop from running for 0.8 s, one of 256 for 0.3 s.
_PROCESSES: Final = 256
_FLOOD_BYTES: Final = 64 * _MIB


_NOBODYS: Final = (
    "not run: this workspace has no user id of its own, and there are no namespaces; give the container more user ids, "
    "or allow namespaces"
)


class TerminalArguments(Arguments):
    """See :class:`Terminal`."""

    command: str = Field(min_length=1, max_length=20_000, description="A command line for sh.")
    timeout_s: int | None = Field(default=None, ge=1, description="Seconds until it is killed.")


class Terminal:
    """Runs a command.

    Args:
        timeout_s: the longest a command may take, and what it gets when the call does not say.
        output_chars: what the model sees of its output: the beginning and the end.
        network: commands may use the network.
        layers: tells which layers of the sandbox hold here; None = commands run without a sandbox.
    """

    name, toolset, idempotent = "terminal", "terminal", False

    def __init__(
        self,
        *,
        timeout_s: int,
        output_chars: int,
        network: bool = False,
        layers: Callable[..., Sandbox] | None = sandbox,
    ) -> None:
        self._timeout_s, self._output_chars = timeout_s, output_chars
        self._network, self._layers = network, layers

    @property
    def available(self) -> bool:
        """No layer of the sandbox is missing."""
        return self.missing() is None

    def missing(self) -> str | None:
        """What is missing and how to get it, in one line."""
        if self._layers is None:
            return None
        lacking = [f"{layer.name}: {layer.says}" for layer in self._layers(network=self._network).missing]
        return "; ".join(lacking) or None

    def schema(self) -> Mapping[str, Any]:
        """The function's schema, with the limits in force."""
        network = "" if self._network or self._layers is None else ", no network"
        temporary = "" if self._layers is None else " Temporary files go to $TMPDIR."
        text = (
            f"Run a command with sh in your workspace. No input, no state between calls{network}, a clean environment, "
            f"at most {self._timeout_s} s.{temporary} Everything it started is ended with it: nothing goes on in the "
            "background."
        )
        return schema(self.name, text, TerminalArguments)

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Exit code and output; cancelling the coroutine kills everything the command started."""
        wanted = read(TerminalArguments, args)
        if isinstance(wanted, ToolOutput):
            return wanted
        if "\0" in wanted.command:
            return ToolOutput("not run: a command cannot hold a NUL character", error=True)
        if (missing := await asyncio.to_thread(self.missing)) is not None:
            return ToolOutput(f"not run: this machine lacks a layer of the sandbox: {missing}", error=True)
        if (why := await asyncio.to_thread(_refused, wanted.command, context.workspace)) is not None:
            return ToolOutput(f"denied, and not run: {why}. Nobody can approve it here; find another way", error=True)
        limit = max(1.0, min(wanted.timeout_s or self._timeout_s, self._timeout_s, context.seconds_left - 1))
        output = Output(self._output_chars)
        try:
            question = self._question(wanted.command, context.workspace, limit)
        except OSError as error:
            return ToolOutput(f"not run: the workspace cannot be used ({error.strerror})", error=True)
        if question["sandbox"] and question["uid"] == NOBODY and not question["namespaces"]:
            return ToolOutput(_NOBODYS, error=True)
        ended = await run_command(question, output, limit_s=limit, most_bytes=_FLOOD_BYTES)
        if ended.code is None:
            return ToolOutput(f"killed: {ended.killed}\n{output.text()}", error=True)
        return ToolOutput(f"exit code {ended.code}\n{output.text()}", error=ended.code != 0)

    def _question(self, command: str, workspace: Path, limit: float) -> Question:
        workspace = Path(os.path.realpath(workspace))  # in the command's view there are no links on the way
        uid = tool_uid(workspace)
        shut_in = self._layers is not None
        namespaces = self._layers is not None and self._layers(network=self._network).namespaces
        counted = {"RLIMIT_NPROC": _PROCESSES} if uid is not None or namespaces else {}
        env = {"PATH": _PATH, "HOME": str(workspace), "LANG": "C.UTF-8", "TERM": "dumb"}
        env |= {"TMPDIR": str(workspace / _TEMPORARY), **_NO_SETTINGS} if shut_in else {}
        return Question(
            command=command,
            cwd=str(workspace),
            temporary=_TEMPORARY,
            env=env,
            uid=uid,
            limits={**_LIMITS, **counted, "RLIMIT_CPU": int(limit) + 5},
            sandbox=shut_in,
            namespaces=namespaces,
            network=self._network,
        )


def _refused(command: str, workspace: Path) -> str | None:
    def script(path: str) -> str | None:
        try:
            return content_of(workspace, path).decode(errors="replace")
        except (Outside, OSError):
            return None  # no script of this workspace

    return refused(command, script, workspace)
