"""The result of a batch in the peer's JSON shape (spec 1.1.5, 1.1.6), in task order whatever finished first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import PEER_STATUS, RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, ToolCall, ToolStep

_HEAD_SHARE: Final = 0.75


def batch_result(children: Sequence[tuple[RunRecord, Sequence[AnyStep]]], most_chars: int) -> str:
    """One JSON text for the parent's model.

    Args:
        children: records and steps, in task order, all ended.
        most_chars: of one summary; the whole stays in the child's record.
    """
    results = [_entry(record, steps, most_chars) for record, steps in children]
    began = min((record.created for record, _ in children), default=0)
    ended = max((record.ended for record, _ in children), default=0)
    return json.dumps(
        {"results": results, "total_duration_seconds": round((ended - began) / 1000, 2)}, ensure_ascii=False
    )


def _entry(record: RunRecord, steps: Sequence[AnyStep], most_chars: int) -> Mapping[str, Any]:
    status, exit_reason = PEER_STATUS[record.state]
    text = str(record.result.get("text") or "")
    entry: dict[str, Any] = {
        "task_index": record.index,
        "goal": record.spec.get("goal", ""),
        "status": status,
        "summary": text or None,
        "exit_reason": exit_reason,
        "api_calls": record.usage.calls,
        "duration_seconds": round(record.duration_s, 2),
        "model": next((step.model for step in reversed(steps) if isinstance(step, ModelStep)), ""),
        "tokens": {"input": record.usage.input_tokens, "output": record.usage.output_tokens},
        "tool_trace": _trace(steps),
        "run": record.id,
    }
    if record.state is not RunState.COMPLETED:
        reason = str(record.exit_reason or record.state)
        entry["error"] = str(record.result.get("error") or "") or f"the sub-agent ended as {record.state}: {reason}"
    if len(text) > most_chars:
        entry |= {"summary": _shortened(text, most_chars, record.id), "summary_truncated": True}
        entry["summary_full_path"] = f"run:{record.id}"
    return entry


def _shortened(text: str, most_chars: int, run: str) -> str:
    head = text[: int(most_chars * _HEAD_SHARE)]
    head = head[: head.rfind("\n") + 1] or head
    tail = text[-(most_chars - int(most_chars * _HEAD_SHARE)) :]
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… {left_out} of {len(text)} characters left out, from character {len(head)} on; "
        f"the whole text is the result of run {run} …]\n{tail}"
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
