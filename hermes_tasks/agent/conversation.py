"""From a session's stored turns to the messages before the next one. Pure: the same turns give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.transcript import SUMMARY_HEAD, SUMMARY_NOTE, last_summary, own_messages
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import step_from_json
from hermes_tasks.contracts.strategy import Plan

_NOT_COMPLETED: Final = "[This turn was not completed: {state}. What was said and done until then stands above.]"
_ANY_POLICY: Final = Policy(iterations=1, deadline_s=1)


def conversation(turns: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages of all turns that count.

    A summary stands for what it replaced: the first steps of its turn, and the turns before it if it covers them.
    A turn that broke off keeps what it did, with a result for every call, and says how it ended.

    Args:
        turns: as ``Sessions.history`` returns them, oldest first.
    """
    said: list[Message] = []
    for turn in turns:
        steps = [step_from_json(text) for text in turn["steps"]]
        summary = last_summary(steps)
        opening = {"role": "user", "content": turn["opening"] or turn["user"]}
        if summary is not None and summary.history:
            said = []
        said.append(opening)
        if summary is not None:
            said += [
                {"role": "assistant", "content": SUMMARY_HEAD + summary.text},
                {"role": "user", "content": SUMMARY_NOTE},
            ]
            steps = steps[summary.upto :]
        plan = Plan(system="", messages=tuple(said), policy=_ANY_POLICY, model="")
        said += own_messages(plan, steps)
        if turn["state"] != RunState.COMPLETED:
            _add_note(said, _NOT_COMPLETED.format(state=turn["state"]))
    return tuple(said)


def _add_note(said: list[Message], note: str) -> None:
    """As words of the assistant; two messages of one role in a row are refused by some providers."""
    last = said[-1]
    if last["role"] == "assistant" and not last.get("tool_calls"):
        said[-1] = {**last, "content": f"{last['content']}\n\n{note}"}
    else:
        said.append({"role": "assistant", "content": note})
