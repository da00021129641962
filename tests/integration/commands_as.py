"""A worker of the terminal, run by path: as root, as a root in a container, or as an ordinary user.

Arguments: how, the directory of the workspaces. Each line of standard input asks for one thing, as JSON:
``{"user", "command", "timeout_s"?, "network"?, "judged"?, "bare"?}`` → ``{"content", "error"}``; ``{"layers": true}`` →
the layers and what the tool says without them. Approval rules are passed by unless ``judged``, so that what holds is
the sandbox alone; with ``bare`` there is none either.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hermes_tasks.tools.command import run_command
from hermes_tasks.tools.output import Output
from hermes_tasks.tools.sandbox import kernel, seccomp
from hermes_tasks.tools.sandbox.layers import sandbox
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.workspace import Workspaces
from tests.integration.tool_calls import call, run_of

#: What docker-compose.yml gives to a worker that is root: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID.
CAPABILITIES = (0, 1, 3, 5, 6, 7)
_DROP = 24
INSIDE = "-inside"


def enter_container(how: str) -> None:
    """As engines do: few capabilities, and no call that makes a namespace or a mount."""
    for number in range(64):
        if number not in CAPABILITIES:
            ctypes.CDLL(None).prctl(_DROP, number, 0, 0, 0)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(network=True, truncate=True)
    os.execv(sys.executable, [sys.executable, __file__, how + INSIDE, *sys.argv[2:]])


async def answer(workspaces: Workspaces, asked: dict[str, Any]) -> dict[str, Any]:
    layers = None if asked.get("bare") else sandbox
    terminal = Terminal(timeout_s=60, output_chars=20_000, network=asked.get("network", False), layers=layers)
    if "layers" in asked:
        found = sandbox()
        said = await call(terminal, Path("/nonexistent"), {"command": "true"})
        return {
            "layers": [asdict(layer) for layer in found.layers],
            "missing": [layer.name for layer in found.missing],
            "available": terminal.available,
            "said": said.content,
        }
    workspace = workspaces.made_for(run_of(asked["user"], session="s1"))
    limit = asked.get("timeout_s", 30)
    if asked.get("judged"):
        output = await call(terminal, workspace, {"command": asked["command"], "timeout_s": limit})
        return {"content": output.content, "error": output.error}
    seen = Output(20_000)
    question = terminal._question(asked["command"], workspace, limit)
    ended = await run_command(question, seen, limit_s=limit, most_bytes=1_000_000)
    return {"content": seen.text(), "error": ended.code != 0, "killed": ended.killed, "code": ended.code}


def main() -> None:
    how, root = sys.argv[1], Path(sys.argv[2])
    if "container" in how and not how.endswith(INSIDE):
        enter_container(how)
    workspaces = Workspaces(root)
    print(json.dumps({"pid": os.getpid(), "uid": os.geteuid()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(answer(workspaces, json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
