"""The ``memory`` tool: changes one of the user's documents, together with the step that records it, in one script."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.tools import Slot, ToolContext, ToolOutput
from hermes_tasks.memory.documents import Change, Operation, Refusal, apply, apply_all, usage
from hermes_tasks.memory.requests import Request, parsed, schema
from hermes_tasks.memory.vetting import safe_entry, safe_quote
from hermes_tasks.store.memory import DocumentState, Memory

_TRIES: Final = 10
_PAUSE_S: Final = 0.005
_NOTE: Final = "Saved for later conversations; the prompt of this one does not change. Do not repeat this call."
_STOP: Final = (
    "Stop: {count} memory calls failed in this turn. Make no further memory call, and do not say that it was saved."
)

Sleep = Callable[[float], Awaitable[None]]


class MemoryTool:
    """See :class:`hermes_tasks.contracts.tools.StoredTool`.

    Args:
        limits: most characters of each document.
        max_failures: that many failed calls of a turn may be followed by another try; the next answer says stop.
        sleep: waits that many seconds between two tries against other writers.
    """

    name = "memory"
    toolset = "memory"

    def __init__(
        self, memory: Memory, limits: Mapping[Document, int], *, max_failures: int = 3, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._memory, self._limits, self._max_failures, self._sleep = memory, limits, max_failures, sleep

    def schema(self) -> Mapping[str, Any]:
        """The function's schema; it names the limits in force."""
        return schema(self._limits)

    async def run_stored(self, context: ToolContext, args: Mapping[str, Any], slot: Slot) -> ToolOutput | None:
        """Write change and step together, or say why nothing was written.

        Raises:
            LeaseLost, RunCancelled: the run is not ours any more; nothing was written.
        """
        if context.run.policy.memory != "write":
            return self._failed(context, {"error": "this run may not write memory; put it in your answer instead"})
        request = parsed(args)
        if isinstance(request, str):
            return self._failed(context, {"error": request})
        operations = _vetted(request)
        if isinstance(operations, Refusal):
            return self._failed(context, {"error": operations.error})
        state = await self._memory.document(context.run.user, request.document)
        for attempt in range(_TRIES):
            change = self._change(state, request, operations)
            if isinstance(change, Refusal):
                return self._refused(context, request.document, state, change)
            output = self._done(request.document, change)
            if change.entries == state.entries:
                context.turn_failures.pop(self.name, None)
                return output
            newer = await self._write(context, request.document, state, change, slot, output)
            if newer is None:
                context.turn_failures.pop(self.name, None)
                return None
            state = newer
            await self._sleep(random.uniform(0, _PAUSE_S * 2**attempt))
        text = "others are changing this document right now, nothing was written; try once more later"
        return ToolOutput(_text({"success": False, "error": text}), error=True)

    async def _write(
        self, context: ToolContext, name: Document, state: DocumentState, change: Change, slot: Slot, output: ToolOutput
    ) -> DocumentState | None:
        """The newer state when somebody else wrote meanwhile, or None: effect and step are stored."""
        newer = await self._memory.write(
            context.run.user, name, state, change.entries, guard=slot.guard, step=slot.step(output)
        )
        if newer is None:
            slot.written()
        return newer

    def _change(self, state: DocumentState, request: Request, operations: tuple[Operation, ...]) -> Change | Refusal:
        limit = self._limits[request.document]
        if request.batch:
            return apply_all(state.entries, operations, limit, safe_entry)
        return apply(state.entries, operations[0], limit, safe_entry)

    def _done(self, name: Document, change: Change) -> ToolOutput:
        facts = {
            "success": True,
            "done": True,
            "target": str(name),
            "usage": usage(change.entries, self._limits[name]),
            "entry_count": len(change.entries),
            "message": change.message,
            "note": _NOTE,
        }
        return ToolOutput(_text(facts))

    def _refused(self, context: ToolContext, name: Document, state: DocumentState, refusal: Refusal) -> ToolOutput:
        limit = self._limits[name]
        facts: dict[str, Any] = {
            "error": refusal.error,
            "target": str(name),
            "usage": usage(state.entries, limit),
            "limit_chars": limit,
        }
        if refusal.needed is not None:
            facts["needed_chars"] = refusal.needed
        if refusal.matches:
            facts["matches"] = refusal.matches
        facts["current_entries"] = state.entries
        return self._failed(context, facts)

    def _failed(self, context: ToolContext, facts: Mapping[str, Any]) -> ToolOutput:
        """A failure, counted; from the one after ``max_failures`` on it tells the model to give up."""
        count = context.turn_failures.get(self.name, 0) + 1
        context.turn_failures[self.name] = count
        end = {"done": True, "note": _STOP.format(count=count)} if count > self._max_failures else {}
        return ToolOutput(_text({"success": False, **facts, **end}), error=True)


def _vetted(request: Request) -> tuple[Operation, ...] | Refusal:
    """The operations as they may be stored; whatever is unsafe is refused before the store is looked at."""
    made = []
    for number, operation in enumerate(request.values(), 1):
        content = safe_entry(operation.content)
        if isinstance(content, Refusal):
            return Refusal(f"operation {number}: {content.error}") if request.batch else content
        made.append(Operation(operation.action, content, safe_quote(operation.old_text)))
    return tuple(made)


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False)
