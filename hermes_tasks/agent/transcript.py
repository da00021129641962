"""From stored steps to the messages a model reads. Pure: the same steps give the same bytes anywhere.

Whatever was stored, the result is a conversation a provider accepts: every call has an id of its own and exactly one
result, results stand in call order right behind their answer, and roles alternate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.progress import Progress, all_progress, is_blank
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.steps import SummaryStep
from hermes_tasks.contracts.strategy import Plan

INTERRUPTED: Final = (
    "Interrupted: this call began, but its result was lost. Its effect is unknown. "
    "Check whether it took place before you repeat it."
)
NOT_BEGUN: Final = "Not run: the work was stopped before this call began. Nothing happened."
EMPTY_NOTE: Final = "Your last answer had no text and no tool call. Answer now: the result, or the next tool call."
SUMMARY_HEAD: Final = "[Summary of the work so far, made because the full text no longer fits]\n"
SUMMARY_NOTE: Final = "Go on from this summary. Do not repeat what it says is done."
_ID_CHARS: Final = 9  # the strictest provider takes exactly nine letters or digits
_NAME_CHARS: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


def messages(plan: Plan, steps: Sequence[AnyStep], *, closing: bool = False) -> list[Message]:
    """The conversation for the next model call.

    Args:
        closing: ask for the last answer, without tools.
    """
    summary = last_summary(steps)
    said: list[Message] = []
    if plan.system:
        said.append({"role": "system", "content": plan.system})
    said.extend(plan.messages[-1:] if summary is not None and summary.history else plan.messages)
    if summary is not None:
        said.append({"role": "assistant", "content": SUMMARY_HEAD + summary.text})
        _say(said, SUMMARY_NOTE)
    upto = 0 if summary is None else summary.upto
    seen = set(_ids(plan.messages))
    for progress in all_progress(steps):
        ids = _fresh_ids(progress, seen)  # also of answers that are left out: ids must not depend on the summary
        if progress.index >= upto:
            _add(said, progress, ids)
    if closing:
        _say(said, plan.closing_prompt)
    return said


def own_messages(plan: Plan, steps: Sequence[AnyStep]) -> list[Message]:
    """What the run itself said and did, without the plan's messages and summaries: what a history keeps.

    Every call has its result here too, so a conversation stopped at any point can go on.
    """
    said: list[Message] = []
    seen = set(_ids(plan.messages))
    for progress in all_progress(steps):
        ids = _fresh_ids(progress, seen)
        if progress.answer.calls or not is_blank(progress.answer.text):
            _add(said, progress, ids)
    return said


def last_summary(steps: Sequence[AnyStep]) -> SummaryStep | None:
    """The summary that counts, or None."""
    return next((step for step in reversed(steps) if isinstance(step, SummaryStep)), None)


def result_of(progress: Progress, call: int) -> str:
    """What the model reads as the result of that call, whether or not there is one."""
    step = progress.results.get(call)
    if step is not None:
        return step.content
    began = call in progress.began or call in progress.batches
    return INTERRUPTED if began else NOT_BEGUN


def _add(said: list[Message], progress: Progress, ids: Sequence[str]) -> None:
    answer = progress.answer
    if not answer.calls:
        if not is_blank(answer.text):
            said.append({"role": "assistant", "content": answer.text})
        else:  # some providers refuse an assistant message without content
            _say(said, EMPTY_NOTE)
        return
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": _plain_name(call.name), "arguments": _json_object(call.arguments)},
        }
        for call_id, call in zip(ids, answer.calls, strict=True)
    ]
    said.append({"role": "assistant", "content": None if is_blank(answer.text) else answer.text, "tool_calls": calls})
    for number, call_id in enumerate(ids):
        said.append({"role": "tool", "tool_call_id": call_id, "content": result_of(progress, number)})


def _say(said: list[Message], text: str) -> None:
    """Add a user message; two in a row become one, since some templates insist on alternating roles."""
    last = said[-1] if said else None
    if last is None or last["role"] != "user":
        said.append({"role": "user", "content": text})
    elif isinstance(last["content"], str):
        said[-1] = {**last, "content": f"{last['content']}\n\n{text}"}
    else:  # text and image parts
        said[-1] = {**last, "content": [*last["content"], {"type": "text", "text": text}]}


def _json_object(arguments: str) -> str:
    """The arguments as written, or the empty object: providers parse them in history and refuse what does not parse.

    The result of such a call says what was wrong with them.
    """
    try:
        return arguments if isinstance(json.loads(arguments), dict) else "{}"
    except ValueError:
        return "{}"


def _plain_name(name: str) -> str:
    """The called name in the letters that providers accept in history; the call's result names it as it was written."""
    return _NOT_IN_NAMES.sub("_", name)[:_NAME_CHARS] or "unnamed"


def _ids(conversation: Sequence[Message]) -> Iterator[str]:
    for message in conversation:
        calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
        for call in calls:
            yield str(call.get("id") or "")


def _fresh_ids(progress: Progress, seen: set[str]) -> list[str]:
    """One id per call, none of them in ``seen`` (which grows). A usable id of the provider's is kept."""
    ids: list[str] = []
    for number, call in enumerate(progress.answer.calls):
        call_id, salt = call.id.strip(), 0
        while not call_id or call_id in seen:
            call_id = derived_id("call", progress.index, number, salt)[:_ID_CHARS]
            salt += 1
        seen.add(call_id)
        ids.append(call_id)
    return ids
