"""A child run: a fresh agent that knows its goal and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Outcome, Policy, RunRecord
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote

_FRAME: Final = (
    "You are a sub-agent. Another agent gave you one task and waits for the result; nobody can answer questions. "
    "You know nothing of its conversation but what stands here. Work with your tools, check what you claim, and end "
    "with a tight summary: the outcome first, then what it rests on, then what could not be done and why."
)


class ChildStrategy:
    """See :class:`hermes_tasks.contracts.strategy.Strategy`.

    Args:
        offered: the schemas of the tools a policy grants.
        workspace: where the tools of a run work.
    """

    kind = RunKind.CHILD

    def __init__(
        self, offered: Callable[[Policy], Sequence[Mapping[str, Any]]], workspace: Callable[[RunRecord], Path]
    ) -> None:
        self._offered, self._workspace = offered, workspace

    async def prepare(self, journal: Journal) -> Plan:
        """The plan: the goal as the opening message, no history, no memory."""
        record = journal.record
        context = str(record.spec.get("context") or "")
        opening = f"Your task: {record.spec['goal']}"
        if context:
            opening += f"\n\nWhat you must know:\n{context}"
        tools = tuple(self._offered(record.policy))
        system = f"{_FRAME}\nYour working directory is {self._workspace(record)}." if tools else _FRAME
        return Plan(
            system=system, messages=({"role": "user", "content": opening},), policy=record.policy,
            model=record.policy.model, tools=tools,
        )  # fmt: skip

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:
        """Tool calls are told to the session that waits; a child's text is not part of its conversation."""
        if note.kind != "tool_started":
            return ()
        record = journal.record
        data = {"run": record.id, "batch": record.batch, "index": record.index, "name": note.name}
        return ((EventType.CHILD_TOOL, data),)

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """End the run; the last child of a batch joins it in the same script."""
        await journal.finish(outcome)
