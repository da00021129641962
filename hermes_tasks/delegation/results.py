"""The result of a batch in the peer's JSON shape (spec 1.1.5, 1.1.6), in task order whatever finished first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import PEER_STATUS, ExitReason, RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, SummaryStep, ToolCall, ToolStep

_HEAD_SHARE: Final = 0.75
#: A head or tail is snapped to the end of a line only where that costs less of it than this.
_SNAP_SHARE: Final = 0.2


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
    entry: dict[str, Any] = {
        "task_index": record.index,
        "goal": record.spec.get("goal", ""),
        "status": status,
        "summary": text or None,
        "exit_reason": exit_reason,
        "api_calls": sum(isinstance(step, ModelStep | SummaryStep) for step in steps),
        "duration_seconds": round(record.duration_s, 2),
        "model": next((step.model for step in reversed(steps) if isinstance(step, ModelStep)), ""),
        "tokens": {"input": record.usage.input_tokens, "output": record.usage.output_tokens},
        "tool_trace": _trace(steps),
        "run": record.id,
    }
    if record.state is not RunState.COMPLETED:
        reason = str(record.exit_reason or record.state)
        entry["error"] = str(record.result.get("error") or "") or f"the sub-agent ended as {record.state}: {reason}"
    if record.exit_reason is ExitReason.TRUNCATED:
        entry["note"] = "the answer was cut at the model's output limit; its end is missing"
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
