"""The ``delegate_task`` tool: a batch of child runs, started in one script with the step that records it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import NewRun, Policy, RunRecord
from hermes_tasks.contracts.tools import Slot, ToolContext, ToolOutput
from hermes_tasks.delegation.request import Task, read_tasks
from hermes_tasks.delegation.results import Ended, batch_result
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.store.runs import Runs


class DelegateTask:
    """See :class:`hermes_tasks.contracts.tools.DeferredTool`.

    Args:
        child_policy: the limits of every child.
        max_tasks: tasks in one call; more are refused.
        at_once: children of one parent that run at a time; the rest queue.
        max_depth: a run this deep may not delegate.
        max_summary_chars: of one child's answer in the result.
    """

    name = "delegate_task"
    toolset = "delegation"

    def __init__(
        self,
        runs: Runs,
        child_policy: Policy,
        *,
        max_tasks: int,
        at_once: int,
        max_summary_chars: int,
        max_depth: int = 1,
    ) -> None:
        self._runs, self._policy = runs, child_policy
        self._max_tasks, self._at_once, self._max_depth = max_tasks, at_once, max_depth
        self._max_summary_chars = max_summary_chars

    def schema(self) -> Mapping[str, Any]:
        """The schema, with the limits that are in force now."""
        task = {
            "type": "object",
            "properties": {
                "goal": {"type": "string", "description": "What the sub-agent has to find out or do."},
                "context": {"type": "string", "description": "All it must know; it sees nothing of this conversation."},
            },
            "required": ["goal"],
        }
        toolsets = ", ".join(self._policy.toolsets)
        return {
            "name": self.name,
            "description": (
                "Hand work to sub-agents and wait for their results. Give goal (and context) for one, or tasks for "
                f"several that do not depend on each other: up to {self._max_tasks} in a call, of which "
                f"{self._at_once} run at a time. Each sub-agent starts with nothing but its goal and context, has the "
                f"toolsets {toolsets} and up to {self._policy.iterations} steps, and cannot ask back. "
                "Results come in task order; a failed one says why."
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    "goal": {"type": "string", "description": "A single task."},
                    "context": {"type": "string", "description": "Background for the single task."},
                    "tasks": {"type": "array", "items": task, "description": "Several tasks."},
                },
            },
        }

    async def start(self, context: ToolContext, args: Mapping[str, Any], call: int, slot: Slot) -> ToolOutput | None:
        """Start the batch; an output instead says what was wrong, and nothing was started."""
        parent = context.run
        if parent.depth >= self._max_depth:
            text = f"delegation depth reached: this run is at depth {parent.depth}, the limit is {self._max_depth}"
            return ToolOutput(text, error=True)
        try:
            tasks = read_tasks(args, self._max_tasks)
        except InvalidRequest as error:
            return ToolOutput(str(error), error=True)
        # Derived, so that a call that is started again after a crash names the same batch and children.
        batch = derived_id("batch", parent.user, parent.id, slot.guard.index, call)
        children = [self._child(context, batch, index, task) for index, task in enumerate(tasks)]
        await self._runs.create_batch(slot.guard, slot.started(batch), call, children)
        slot.written()
        return None

    def _child(self, context: ToolContext, batch: str, index: int, task: Task) -> NewRun:
        return NewRun(
            id=f"{batch}.{index}", kind=RunKind.CHILD, user=context.run.user, session=context.run.session,
            parent=context.run.id, batch=batch, index=index, depth=context.run.depth + 1,
            spec={"goal": task.goal, "context": task.context}, policy=self._policy,
        )  # fmt: skip

    async def collect(self, context: ToolContext, batch: str) -> ToolOutput | None:
        """The joined result, or None while children are still at work."""
        joined, records = await self._runs.batch(context.run.user, batch)
        if not joined:
            return None
        # In a thread: masking takes about a millisecond per thousand characters.
        texts = await asyncio.to_thread(_masked_answers, records)
        children = [await self._ended(record, text) for record, text in zip(records, texts, strict=True)]
        return ToolOutput(batch_result(children, self._max_summary_chars))

    async def _ended(self, record: RunRecord, text: str) -> Ended:
        steps = await self._runs.steps(record.user, record.id)
        pointer = ""
        if len(text) > self._max_summary_chars:
            pointer = await self._runs.save_long(record.user, record.id, "answer", text)
        return Ended(record, steps, text, pointer)


def _masked_answers(records: Sequence[RunRecord]) -> list[str]:
    return [mask_secrets(str(record.result.get("text") or "")) for record in records]
