"""The result of a batch in the peer's JSON shape (spec 1.1.5, 1.1.6), in task order whatever finished first."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import PEER_STATUS, ExitReason, RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, SummaryStep, ToolCall, ToolStep
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.store.runs import Batch, Runs

_HEAD_SHARE: Final = 0.75
#: Spec 1.1.6: all summaries of a batch together take at most this share of the parent's remaining context,
_CONTEXT_SHARE: Final = 0.5
_CHARS_PER_TOKEN: Final = 4
#: yet none is cut below this.
_FLOOR_CHARS: Final = 2_000
#: A head or tail is snapped to the end of a line only where that costs less of it than this.
_SNAP_SHARE: Final = 0.2
_GOAL_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Ended:
    """A child that ended.

    Attributes:
        text: its answer as the parent may read it, without secrets.
        pointer: where the whole of a text that is too long can be read.
    """

    record: RunRecord
    steps: Sequence[AnyStep]
    text: str
    pointer: str = ""


class BatchResults:
    """The text in which a parent, or a session, reads what a batch found.

    Args:
        max_summary_chars: of one child's answer; 0 = only the parent's context limits it.
    """

    def __init__(self, runs: Runs, *, max_summary_chars: int) -> None:
        self._runs, self._most = runs, max_summary_chars

    async def text(self, batch: Batch, context_left: int | None) -> str:
        """One JSON text for the parent's model; the whole of an answer that was cut is kept at a pointer in it.

        Args:
            context_left: tokens that still fit into the reader's context; None = not known.
        """
        # In a thread: masking takes about a millisecond per thousand characters.
        texts = await asyncio.to_thread(_masked_answers, batch.children)
        most = summary_chars(self._most, context_left, len(texts))
        children = [await self._ended(record, text, most) for record, text in zip(batch.children, texts, strict=True)]
        return batch_result(children, most)

    async def _ended(self, record: RunRecord, text: str, most: int) -> Ended:
        steps = await self._runs.steps(record.user, record.id)
        pointer = await self._runs.save_long(record.user, record.id, "answer", text) if len(text) > most else ""
        return Ended(record, steps, text, pointer)


def summary_chars(static: int, context_left: int | None, count: int) -> int:
    """The longest summary of one of ``count`` children (spec 1.1.6)."""
    caps = [static] if static else []
    if context_left is not None:
        caps.append(max(_FLOOR_CHARS, int(context_left * _CONTEXT_SHARE / max(1, count) * _CHARS_PER_TOKEN)))
    return min(caps, default=sys.maxsize)


def handle(batch: str, goals: Sequence[str], what: str) -> str:
    """What a caller gets that does not wait (spec 1.1.5)."""
    note = (
        f"{what} Their results come as a message of their own in this conversation. Do not wait for them and do not "
        "ask for them again; answer with what you know now."
    )
    return json.dumps(
        {
            "status": "dispatched", "mode": "background", "count": len(goals), "delegation_id": batch,
            "goals": [goal[:_GOAL_CHARS] for goal in goals], "note": note,
        },
        ensure_ascii=False,
    )  # fmt: skip


def batch_result(children: Sequence[Ended], most_chars: int) -> str:
    """One JSON text for the parent's model.

    Args:
        children: in task order.
        most_chars: of one summary; longer ones need their ``pointer``.
    """
    results = [_entry(child, most_chars) for child in children]
    began = min((child.record.created for child in children), default=0)
    ended = max((child.record.ended for child in children), default=0)
    return json.dumps(
        {"results": results, "total_duration_seconds": round((ended - began) / 1000, 2)}, ensure_ascii=False
    )


def _entry(child: Ended, most_chars: int) -> Mapping[str, Any]:
    record, steps, text = child.record, child.steps, child.text
    status, exit_reason = PEER_STATUS[record.state]
    if record.exit_reason is ExitReason.MAX_ITERATIONS:
        exit_reason = "max_iterations"  # also of a child whose last answer had no text, and which therefore failed
    used = record.usage.plus(record.below)
    entry: dict[str, Any] = {
        "task_index": record.index,
        "goal": record.spec.get("goal", ""),
        "status": status,
        "summary": text or None,
        "exit_reason": exit_reason,
        "api_calls": sum(isinstance(step, ModelStep | SummaryStep) for step in steps),
        "duration_seconds": round(record.duration_s, 2),
        "model": next((step.model for step in reversed(steps) if isinstance(step, ModelStep)), ""),
        "tokens": {"input": used.input_tokens, "output": used.output_tokens},
        "cost": "price unknown" if used.cost is None else used.cost,
        "tool_trace": _trace(steps),
        "run": record.id,
    }
    if record.state is not RunState.COMPLETED:
        reason = str(record.exit_reason or record.state)
        entry["error"] = str(record.result.get("error") or "") or f"the sub-agent ended as {record.state}: {reason}"
    notes = list(record.spec.get("notes") or ())
    if record.exit_reason is ExitReason.TRUNCATED:
        notes.append("the answer was cut at the model's output limit; its end is missing")
    if notes:
        entry["note"] = "; ".join(notes)
    if len(text) > most_chars:
        entry |= {"summary": _shortened(text, most_chars, child.pointer), "summary_truncated": True}
        entry["summary_full_path"] = child.pointer
    return entry


def _shortened(text: str, most_chars: int, pointer: str) -> str:
    head = text[: int(most_chars * _HEAD_SHARE)]
    line_end = head.rfind("\n") + 1
    if line_end > len(head) * (1 - _SNAP_SHARE):
        head = head[:line_end]
    tail = text[len(text) - (most_chars - int(most_chars * _HEAD_SHARE)) :]
    line_end = tail.find("\n") + 1
    if line_end < len(tail) * _SNAP_SHARE:
        tail = tail[line_end:]
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… {left_out} of {len(text)} characters left out; "
        f"read them with read_result, pointer {pointer}, offset {len(head)} …]\n{tail}"
    )


def _trace(steps: Sequence[AnyStep]) -> list[dict[str, Any]]:
    trace: list[dict[str, Any]] = []
    asked: tuple[ToolCall, ...] = ()
    for step in steps:
        if isinstance(step, ModelStep):
            asked = step.calls
        elif isinstance(step, ToolStep):
            arguments = asked[step.call].arguments if step.call < len(asked) else ""
            trace.append(
                {
                    "tool": step.name, "args_bytes": len(arguments.encode()),
                    "result_bytes": len(step.content.encode()), "status": "ok" if step.status == "ok" else "error",
                }
            )  # fmt: skip
    return trace


def _masked_answers(records: Sequence[RunRecord]) -> list[str]:
    return [mask_secrets(str(record.result.get("text") or "")) for record in records]
