"""When a conversation gets too long: which older steps one summary replaces, and what the summary is made from.

The newest answers stay as they are, with the results of their calls, as far as they fit a fifth of the window. An
answer and its results are never parted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hermes_tasks.agent.budget import FULL, correction, next_request_tokens, request_tokens, text_tokens
from hermes_tasks.agent.partial import clip
from hermes_tasks.agent.progress import Progress, all_progress, is_blank
from hermes_tasks.agent.transcript import last_summary, messages, result_of
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.steps import SummaryStep
from hermes_tasks.contracts.strategy import Plan
from hermes_tasks.safety.scrubber import scrub

_KEPT: Final = 0.2
_HISTORY: Final = 0.25
_SOURCE: Final = 0.4
_SAID_CHARS: Final = 6_000
_ARGUMENT_CHARS: Final = 600
_RESULT_CHARS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Cut:
    """What a summary will replace: the first ``upto`` steps and, with ``history``, the conversation before the run."""

    upto: int
    history: bool


def is_full(plan: Plan, steps: Sequence[AnyStep], window: int) -> bool:
    """True when the next request would fill three quarters of the model's window and was not condensed just now.

    Args:
        window: the model's context window in tokens; 0 = unknown, never full.
    """
    if window <= 0 or (steps and isinstance(steps[-1], SummaryStep)):
        return False
    return next_request_tokens(plan, steps) > FULL * window


def best_cut(plan: Plan, steps: Sequence[AnyStep], window: int) -> Cut | None:
    """Where to cut, or None when there is nothing that a summary could make shorter."""
    summary = last_summary(steps)
    replaced, history = (0, False) if summary is None else (summary.upto, summary.history)
    scale = correction(plan, steps)
    before = plan.messages[:-1]
    take_history = history or (bool(before) and request_tokens(before) * scale > _HISTORY * window)
    groups = [progress for progress in all_progress(steps) if progress.index >= replaced]
    upto, room = len(steps), float(_KEPT * window)
    for progress in reversed(groups):
        room -= _group_tokens(plan, progress) * scale
        if room < 0:
            break
        upto = progress.index
    if not groups or upto <= groups[0].index:
        upto = replaced  # the run itself is short: what fills the window is the conversation before it
    if (upto, take_history) != (replaced, history):
        return Cut(upto, take_history)
    if groups or (before and not history):
        return Cut(len(steps), history or bool(before))
    return None


def summary_request(plan: Plan, steps: Sequence[AnyStep], cut: Cut, window: int) -> list[Message]:
    """The request that asks for the summary: one text, so that it fits however long the originals are."""
    source = "\n\n".join(_told(plan, steps, cut))
    tokens, limit = text_tokens(source), _SOURCE * window
    if 0 < limit < tokens:
        source = clip(source, int(len(source) * limit / tokens))
    return [{"role": "system", "content": plan.summary_prompt}, {"role": "user", "content": source}]


def excerpt(plan: Plan, steps: Sequence[AnyStep], cut: Cut) -> str:
    """A summary made without a model, for when it gives none: head and tail of what is replaced."""
    return clip("\n\n".join(_told(plan, steps, cut)), _SAID_CHARS)


def _told(plan: Plan, steps: Sequence[AnyStep], cut: Cut) -> Iterator[str]:
    summary = last_summary(steps)
    if cut.history and not (summary is not None and summary.history):
        for message in plan.messages[:-1]:
            text = _text(message)
            if text:
                yield f"{message['role'].upper()}: {clip(scrub(text), _SAID_CHARS)}"
    yield f"THE TASK: {clip(scrub(_text(plan.messages[-1])), _SAID_CHARS)}" if plan.messages else "THE TASK: none given"
    if summary is not None:
        yield f"EARLIER SUMMARY: {summary.text}"
    first = 0 if summary is None else summary.upto
    for progress in all_progress(steps):
        if first <= progress.index < cut.upto:
            yield from _told_step(progress)


def _told_step(progress: Progress) -> Iterator[str]:
    if not is_blank(progress.answer.text):
        yield f"AGENT: {clip(progress.answer.text.strip(), _SAID_CHARS)}"
    for number, call in enumerate(progress.answer.calls):
        result = clip(result_of(progress, number), _RESULT_CHARS)
        yield f"CALL {call.name} {clip(call.arguments, _ARGUMENT_CHARS)}\nRESULT: {result}"


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "[image]") for part in content)


def _group_tokens(plan: Plan, progress: Progress) -> int:
    bare = Plan(system="", messages=(), policy=plan.policy, model=plan.model)
    steps: list[AnyStep] = [progress.answer, *progress.results.values()]
    return request_tokens(messages(bare, steps))
