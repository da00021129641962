"""Tokens: how many a request will cost, and when a conversation is too long or too dear."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.progress import last_progress
from hermes_tasks.agent.transcript import messages
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.strategy import Plan

#: Above this share of the context window older steps are condensed.
FULL: Final = 0.75
_CHARS_PER_TOKEN: Final = 4
_PER_MESSAGE: Final = 4  # role and separators
_PER_IMAGE: Final = 1_000
_TELLING: Final = 1_000  # below it the provider's own template weighs more than the text
_RATIO: Final = (0.5, 4.0)  # a reported usage outside these is a provider's mistake, not a better estimate


def text_tokens(text: str) -> int:
    """An estimate from the text alone: four characters a token, one token for each Chinese or Japanese character.

    UTF-8 tells them apart at the speed of memory: a CJK character takes two bytes more than its one.
    """
    if text.isascii():
        return -(-len(text) // _CHARS_PER_TOKEN)
    wide = (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2
    return wide + -(-max(0, len(text) - wide) // _CHARS_PER_TOKEN)


def request_tokens(conversation: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """An estimate of what a request costs as input."""
    total = sum(text_tokens(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    return total + sum(_message_tokens(message) for message in conversation)


def next_request_tokens(plan: Plan, steps: Sequence[AnyStep]) -> int:
    """The estimate for the next model call, corrected by what the provider reported for the last one."""
    return round(request_tokens(messages(plan, steps), plan.tools) * correction(plan, steps))


def correction(plan: Plan, steps: Sequence[AnyStep]) -> float:
    """Reported divided by estimated input tokens of the newest answer; 1 while nothing telling was reported."""
    progress = last_progress(steps)
    if progress is None or progress.answer.usage.input_tokens <= 0:
        return 1.0
    estimated = request_tokens(messages(plan, steps[: progress.index]), plan.tools)
    if estimated < _TELLING:
        return 1.0
    low, high = _RATIO
    return min(high, max(low, progress.answer.usage.input_tokens / estimated))


def _message_tokens(message: Message) -> int:
    content = message.get("content") or ""
    if isinstance(content, str):
        total = _PER_MESSAGE + text_tokens(content)
    else:
        texts = [part["text"] for part in content if "text" in part]
        total = _PER_MESSAGE + sum(map(text_tokens, texts)) + _PER_IMAGE * (len(content) - len(texts))
    for call in message.get("tool_calls") or ():
        total += _PER_MESSAGE + text_tokens(call["function"]["name"]) + text_tokens(call["function"]["arguments"])
    return total
