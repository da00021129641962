"""The body of a chat-completions request, and how it adapts to endpoints that do not know every field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hermes_tasks.contracts.models import Message, ModelRequest
from hermes_tasks.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which spelling an endpoint understands. Begins with what nearly all of them do.

    Attributes:
        asks_usage: ``stream_options`` is sent; without it some endpoints never tell their usage.
        limit_field: the name of the output limit.
    """

    asks_usage: bool = True
    limit_field: str = "max_tokens"

    def after(self, status: int, said: str) -> Dialect | None:
        """The dialect to try after a refusal that names one of our fields, or None when it was not about them."""
        if status not in (400, 422):
            return None
        if self.asks_usage and "stream_options" in said:
            return replace(self, asks_usage=False)
        if self.limit_field == "max_tokens" and "max_completion_tokens" in said:
            return replace(self, limit_field="max_completion_tokens")
        return None


def encoded(request: ModelRequest, settings: ModelSettings, dialect: Dialect) -> bytes:
    """The request as JSON bytes. Halves of characters, which no provider accepts, become ``?``."""
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [dict(message) for message in request.messages],
        "stream": True,
    }
    if dialect.asks_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [{"type": "function", "function": dict(schema)} for schema in request.tools]
    limit = request.max_output_tokens or settings.max_output_tokens
    if limit is not None:
        body[dialect.limit_field] = limit
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def refused_part(messages: Iterable[Message], *, vision: bool) -> str:
    """The type of the first message part this model may not be sent, or an empty string."""
    allowed = {"text", "image_url"} if vision else {"text"}
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else ():
            kind = str(part.get("type", "untyped")) if isinstance(part, dict) else "untyped"
            if kind not in allowed:
                return kind
    return ""
