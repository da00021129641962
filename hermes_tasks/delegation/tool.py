"""The ``delegate_task`` tool: a batch of child runs, started in one script with the step that records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import NewRun, Policy, RunRecord
from hermes_tasks.contracts.tools import Slot, ToolContext, ToolOutput
from hermes_tasks.delegation.grant import DELEGATION, FLAT, Nesting, grant, grantable
from hermes_tasks.delegation.request import LEAF, ORCHESTRATOR, Request, Task, read_request
from hermes_tasks.delegation.results import BatchResults, handle
from hermes_tasks.store.runs import Runs

_STARTED: Final = "They work in the background."
_TOO_LONG: Final = "They have not finished yet and go on in the background."


@dataclass(frozen=True, slots=True)
class Limits:
    """What a call may ask for.

    Attributes:
        max_tasks: tasks in one call; more are refused.
        at_once: children of one parent that run at a time; the rest queue.
        wait_s: so long the front agent waits for a batch, then it goes on with a handle.
    """

    max_tasks: int
    at_once: int
    wait_s: int
    nesting: Nesting = FLAT


class DelegateTask:
    """See :class:`hermes_tasks.contracts.tools.DeferredTool`.

    Args:
        child_policy: the limits of every child, and all toolsets a child may have.
        results: makes the text the parent reads.
    """

    name = "delegate_task"
    toolset = DELEGATION

    def __init__(self, runs: Runs, child_policy: Policy, limits: Limits, results: BatchResults) -> None:
        self._runs, self._policy, self._limits, self._results = runs, child_policy, limits, results

    def schema(self) -> Mapping[str, Any]:
        """The schema, with the limits that are in force now."""
        limits = self._limits
        names = [name for name in self._policy.toolsets if name != "results"]
        fields = {
            "goal": {"type": "string", "description": "What the sub-agent has to find out or do."},
            "context": {"type": "string", "description": "All it must know; it sees nothing of this conversation."},
            "toolsets": {
                "type": "array", "items": {"type": "string", "enum": names},
                "description": "Only these of your toolsets; left out: all it may have.",
            },
        }  # fmt: skip
        if self._nested:
            fields["role"] = {
                "type": "string", "enum": [LEAF, ORCHESTRATOR],
                "description": "orchestrator: may delegate parts of its task itself.",
            }  # fmt: skip
        task = {"type": "object", "properties": fields, "required": ["goal"]}
        return {
            "name": self.name,
            "description": (
                "Hand work to sub-agents and wait for their results. Give goal (and context) for one, or tasks for "
                f"several that do not depend on each other: up to {limits.max_tasks} in a call, of which "
                f"{limits.at_once} run at a time. Each sub-agent starts with nothing but its goal and context, has the "
                f"toolsets {', '.join(names)} and up to {self._policy.iterations} steps, and cannot ask back. "
                "Results come in task order; a failed one says why. With background, or when they take longer than "
                f"{limits.wait_s} s, you get a handle at once and the results come as a message of their own. "
                + self._depth_words()
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    **fields,
                    "tasks": {"type": "array", "items": task, "description": "Several tasks."},
                    "background": {"type": "boolean", "description": "Go on without waiting for the results."},
                },
            },
        }

    @property
    def _nested(self) -> bool:
        nesting = self._limits.nesting
        return nesting.orchestrators and nesting.max_depth > 1

    def _depth_words(self) -> str:
        if not self._nested:
            return "Sub-agents cannot delegate."
        return f"Orchestrators may delegate themselves, down to depth {self._limits.nesting.max_depth}."

    async def start(self, context: ToolContext, args: Mapping[str, Any], call: int, slot: Slot) -> ToolOutput | None:
        """Start the batch; an output instead says what was wrong, and nothing was started."""
        parent = context.run
        if refusal := self._limits.nesting.refusal(parent.depth):
            return ToolOutput(refusal, error=True)
        try:
            request = read_request(args, self._limits.max_tasks)
        except InvalidRequest as error:
            return ToolOutput(str(error), error=True)
        # Derived, so that a call that is started again after a crash names the same batch and children.
        batch = derived_id("batch", parent.user, parent.id, slot.guard.index, call)
        children = [self._child(parent, batch, index, task) for index, task in enumerate(request.tasks)]
        # Only a session has a mailbox: whoever else delegates waits, as long as its own limits last.
        mailbox = parent.kind is RunKind.TURN
        if request.background and mailbox:
            step = slot.step(ToolOutput(handle(batch, _goals(request), _STARTED)))
            await self._runs.create_batch(slot.guard, step, batch, call, children)
        else:
            wait_s = self._limits.wait_s if mailbox else 0
            await self._runs.create_batch(slot.guard, slot.started(batch), batch, call, children, wait_s=wait_s)
        slot.written()
        return None

    def _child(self, parent: RunRecord, batch: str, index: int, task: Task) -> NewRun:
        granted = grant(parent, self._policy, task, self._limits.nesting)
        spec: dict[str, Any] = {"goal": task.goal, "context": task.context}
        notes = [task.note] if task.note else []
        if granted.dropped:
            has = ", ".join(name for name in grantable(parent, self._policy) if name != "results")
            notes.append(f"not granted, since your parent may not grant them: {', '.join(granted.dropped)} (of {has})")
        if notes:
            spec["notes"] = notes
        return NewRun(
            id=f"{batch}.{index}", kind=RunKind.CHILD, user=parent.user, session=parent.session, parent=parent.id,
            batch=batch, index=index, depth=parent.depth + 1, spec=spec, policy=granted.policy,
        )  # fmt: skip

    async def collect(self, context: ToolContext, batch: str) -> ToolOutput | None:
        """The joined result, a handle when they took too long, or None while children are still at work."""
        found = await self._runs.batch(context.run.user, batch)
        if found.away:
            return ToolOutput(handle(batch, [str(child.spec.get("goal", "")) for child in found.children], _TOO_LONG))
        if not found.joined:
            return None
        return ToolOutput(await self._results.text(found, context.context_left))


def _goals(request: Request) -> list[str]:
    return [task.goal for task in request.tasks]
