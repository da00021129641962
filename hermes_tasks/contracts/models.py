"""The model port: one chat completion, streamed, with the provider's quirks already smoothed out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.contracts.steps import ModelStep

Message = Mapping[str, Any]
OnText = Callable[[str], Awaitable[None]]
#: Told (model that failed, its error, fallback) before the fallback is asked; raises when that may not be.
BeforeFallback = Callable[[str, HermesTasksError, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call.

    Attributes:
        model: a name under ``models`` in the settings, not the provider's.
        messages: chat-completions messages, system first.
        tools: function schemas ``{name, description, parameters}``; empty = none offered.
        timeout_s: the whole call, streaming included.
        max_output_tokens: None = the model's configured limit.
        before_fallback: whatever it raises ends the call.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    timeout_s: float = 300.0
    max_output_tokens: int | None = None
    before_fallback: BeforeFallback | None = None


class ModelPort(Protocol):
    """Asks a model. Knows endpoints and keys; knows nothing of runs."""

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> ModelStep:
        """One answer, complete and well-formed; text deltas go to ``on_text`` as they come.

        Raises:
            ModelUnavailable, RateLimited: may be tried again.
            ModelRefused, ContextTooLong, BadModelAnswer: may not.
        """
        ...

    def context_tokens(self, model: str) -> int:
        """The context window of that configured model, in tokens."""
        ...
