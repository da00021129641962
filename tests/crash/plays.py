"""What the model says in the kill tests: a turn delegates tasks, each leaves one mark in the workspace and reports.

A turn has a name, its children are ``<name>/0``, ``<name>/1`` …; a call is named after its run and the number of
answers that the run has already: ``<name>:1`` is the continuation.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from hermes_tasks.demo.reply import Call, Reply

_ASKED = re.compile(r"delegate (\d+) as (\S+)")
_TASK = re.compile(r"Your task: (\S+)")
REVIEW = "review"


def message(name: str, tasks: int) -> str:
    """What the user says."""
    return f"delegate {tasks} as {name}"


def answer(name: str, tasks: int) -> str:
    """What the turn answers in the end."""
    return "joined: " + ", ".join(f"{name}/{index} done" for index in range(tasks))


def marks(name: str) -> str:
    """The file to which each child appends its index."""
    return f"{name}.marks"


def tag(request: dict[str, Any]) -> str:
    """The name of a call."""
    opening, later = _opening(request)
    said = sum(message["role"] == "assistant" for message in later)
    task, asked = _TASK.match(opening), _ASKED.match(opening)
    if task:
        return f"{task[1]}:{said}"
    return f"{asked[2]}:{said}" if asked else REVIEW


def turn_of(call: str) -> str:
    """The name of the turn to which a call belongs."""
    return call.partition(":")[0].partition("/")[0]


def _opening(request: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    messages = request["messages"]
    at = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return str(messages[at]["content"]), messages[at + 1 :]


class Cast:
    """The model, holding back what a test wants to be in flight.

    Args:
        holds: True for a call that is not answered before the turn of that name is opened.
        keeps: True for a turn (by name) whose children's tools run until there is a file ``go`` in the workspace.
        delay_s: how long an answer takes.
    """

    def __init__(
        self,
        holds: Callable[[str], bool] = lambda _: False,
        keeps: Callable[[str], bool] = lambda _: False,
        delay_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._holds, self._keeps, self._delay_s = holds, keeps, delay_s
        self._opened: set[str] = set()

    def open(self, name: str) -> None:
        """Answer what is held back of this turn."""
        self._opened.add(name)

    async def script(self, request: dict[str, Any]) -> Reply:
        call = tag(request)
        name = turn_of(call)
        while self._holds(call) and name not in self._opened:  # noqa: ASYNC110 - opened by another thread
            await asyncio.sleep(0.02)
        return self._reply(request, call, name)

    def _reply(self, request: dict[str, Any], call: str, name: str) -> Reply:
        run, _, said = call.partition(":")
        if call == REVIEW:
            return Reply(text="nothing to save")
        if "/" in run:
            return self._child(run, name, first=said == "0")
        opening, later = _opening(request)
        if said == "0":
            tasks = int(_ASKED.match(opening)[1])  # type: ignore[index]
            goals = [{"goal": f"{name}/{index}"} for index in range(tasks)]
            return Reply(calls=[Call("delegate_task", json.dumps({"tasks": goals}))], delay=self._delay_s())
        results = json.loads(later[-1]["content"])["results"]
        return Reply(text="joined: " + ", ".join(str(result["summary"]) for result in results), delay=self._delay_s())

    def _child(self, run: str, name: str, *, first: bool) -> Reply:
        if not first:
            return Reply(text=f"{run} done", delay=self._delay_s())
        command = f"echo {run.rpartition('/')[2]} >> {marks(name)}"
        if self._keeps(name):
            command += "; until [ -e go ]; do sleep 0.05; done"
        return Reply(calls=[Call("terminal", json.dumps({"command": command}))], delay=self._delay_s())
