"""A child run: a fresh agent that knows its goal and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Outcome, Policy, RunRecord
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.delegation.grant import DELEGATION, FLAT, Nesting
from hermes_tasks.safety.masking import mask_secrets

_FRAME: Final = (
    "You are a sub-agent. Another agent gave you one task and waits for the result; nobody can answer questions. "
    "You know nothing of its conversation but what stands here. Work with your tools, check what you claim, and end "
    "with a tight summary: the outcome first, then what it rests on, then what could not be done and why."
)
#: Of one answer in the events of the session (spec 1.1.10: lines of a live transcript).
_SHOWN_CHARS: Final = 600


class ChildStrategy:
    """See :class:`hermes_tasks.contracts.strategy.Strategy`.

    Args:
        offered: the schemas of the tools a policy grants.
        workspace: where the tools of a run work.
        nesting: how deep sub-agents may start sub-agents.
    """

    kind = RunKind.CHILD

    def __init__(
        self, offered: Callable[[Policy], Sequence[Mapping[str, Any]]], workspace: Callable[[RunRecord], Path],
        nesting: Nesting = FLAT,
    ) -> None:  # fmt: skip
        self._offered, self._workspace, self._nesting = offered, workspace, nesting

    async def prepare(self, journal: Journal) -> Plan:
        """The plan: the goal as the opening message, no history, no memory."""
        record = journal.record
        context = str(record.spec.get("context") or "")
        opening = f"Your task: {record.spec['goal']}"
        if context:
            opening += f"\n\nWhat you must know:\n{context}"
        if notes := record.spec.get("notes"):
            opening += "\n\n" + "\n".join(f"[{note}]" for note in notes)
        tools = tuple(self._offered(record.policy))
        parts = [_FRAME]
        if DELEGATION in record.policy.toolsets:
            parts.append(self._orchestrating(record.depth))
        if tools:
            parts.append(f"Your working directory is {self._workspace(record)}.")
        system = "\n".join(parts)
        return Plan(
            system=system, messages=({"role": "user", "content": opening},), policy=record.policy,
            model=record.policy.model, tools=tools,
        )  # fmt: skip

    def _orchestrating(self, depth: int) -> str:
        deeper = self._nesting.refusal(depth + 1)
        below = (
            "cannot delegate in their turn" if deeper else "may delegate in their turn if you make them orchestrators"
        )
        return (
            "You may hand parts of your task to sub-agents of your own with delegate_task. You are at depth "
            f"{depth} of {self._nesting.max_depth}; your sub-agents {below}."
        )

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:
        """Each tool call, and the beginning of each answer, as progress: neither is part of the conversation."""
        record = journal.record
        who = {"run": record.id, "batch": record.batch, "index": record.index}
        match note.kind:
            case "tool_started":
                count = sum(isinstance(step, ToolStep) for step in journal.steps) + 1
                return ((EventType.CHILD_TOOL, {**who, "name": note.name, "tool_count": count}),)
            case "answer":
                text = mask_secrets(note.text[: 2 * _SHOWN_CHARS])[:_SHOWN_CHARS]
                return ((EventType.CHILD_TEXT, {**who, "step": note.step, "text": text}),)
            case _:
                return ()

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """End the run; the last child of a batch joins it in the same script."""
        await journal.finish(outcome)
