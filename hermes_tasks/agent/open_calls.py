"""What has to happen to each call of an answer that has no result yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from hermes_tasks.agent.ports import Registry, Resolved
from hermes_tasks.agent.progress import Progress
from hermes_tasks.agent.transcript import INTERRUPTED
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall, ToolStep
from hermes_tasks.contracts.tools import DeferredTool, StoredTool, Tool, ToolOutput

CUT_OFF: Final = (
    "Not run: your answer was cut at its output limit inside this call, so its arguments are incomplete. "
    "Make the call again with shorter arguments, or in several parts."
)
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Job(Generic[T_co]):
    """One call that is to be run: its number in the answer, its tool, and the checked arguments."""

    number: int
    tool: T_co
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The open calls of an answer, by what has to happen to them; those that wait for a batch are not among them.

    Attributes:
        settled: results that are known without running anything.
        fresh: numbers of the plain calls that did not begin before.
    """

    settled: list[ToolStep] = field(default_factory=list)
    plain: list[Job[Tool]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    stored: list[Job[StoredTool]] = field(default_factory=list)
    deferred: list[Job[DeferredTool]] = field(default_factory=list)


def open_calls(progress: Progress, registry: Registry, policy: Policy) -> OpenCalls:
    """Sort the open calls of that answer.

    A call that began in an earlier holder's hands is run again only if its tool is idempotent. Nothing is run with
    arguments that were cut off.
    """
    found = OpenCalls()
    for number in progress.open_calls:
        if number in progress.batches:
            continue
        decided = _decide(progress, number, registry.resolve(progress.answer.calls[number], policy))
        if isinstance(decided, ToolStep):
            found.settled.append(decided)
        elif isinstance(decided.tool, DeferredTool):
            found.deferred.append(Job(number, decided.tool, decided.args))
        elif isinstance(decided.tool, StoredTool):
            found.stored.append(Job(number, decided.tool, decided.args))
        else:
            found.plain.append(Job(number, decided.tool, decided.args))
            if number not in progress.began:
                found.fresh.append(number)
    return found


def _decide(progress: Progress, number: int, resolved: Resolved | ToolOutput) -> ToolStep | Resolved:
    call = progress.answer.calls[number]
    if number in progress.began:
        if isinstance(resolved, ToolOutput) or not (isinstance(resolved.tool, Tool) and resolved.tool.idempotent):
            return ToolStep(call=number, name=call.name, content=INTERRUPTED, status="unknown")
        return resolved
    last = number == len(progress.answer.calls) - 1
    if progress.answer.finish == "length" and last and not _whole(call):
        return ToolStep(call=number, name=call.name, content=CUT_OFF, status="error")
    if isinstance(resolved, ToolOutput):
        return ToolStep(
            call=number, name=call.name, content=resolved.content, status="error" if resolved.error else "ok"
        )
    return resolved


def _whole(call: ToolCall) -> bool:
    """True when the arguments are a closed JSON object; blank ones of a cut answer may have been about to come."""
    try:
        return isinstance(json.loads(call.arguments), dict)
    except ValueError:
        return False
