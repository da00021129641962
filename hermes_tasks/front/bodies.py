"""What requests carry. Unknown fields are refused by name, never dropped."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import checked_name
from hermes_tasks.front.errors import too_large


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OpenSession(_Body):
    """``session``: the id to use; left out = a new one is made."""

    session: str | None = None

    @field_validator("session")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        try:
            return None if value is None else checked_name(value, "session")
        except InvalidRequest as error:
            raise ValueError(str(error)) from None


class PostMessage(_Body):
    """A message: ``text``, or ``content`` as chat-completions clients send it (a text, or a list of parts)."""

    text: str | None = None
    content: str | list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.content is None):
            raise ValueError("give the message as text, or as content, and not both")
        return self

    def said(self, max_chars: int) -> str:
        """The message as one text.

        Raises:
            InvalidRequest: a part that is not text, or nothing was said.
            Refused: 413, it is too long.
        """
        given = self.text if self.text is not None else self.content
        field = "text" if self.text is not None else "content"
        text = given if isinstance(given, str) else "\n".join(_text_of(part, i) for i, part in enumerate(given or []))
        return _checked(text, field, "the message", max_chars)


class AddJobBody(_Body):
    """A job: what to do, and either ``every`` (an interval) or ``at`` (one moment)."""

    prompt: str
    name: str = Field(default="", max_length=128)
    every: str | None = Field(default=None, max_length=64)
    at: str | None = Field(default=None, max_length=64)

    @model_validator(mode="after")
    def _when(self) -> Self:
        if (self.every is None) == (self.at is None):
            raise ValueError('give either every ("2m", "1h") or at (an ISO time), and not both')
        return self

    def asked(self, max_chars: int) -> str:
        """The prompt, checked.

        Raises:
            InvalidRequest: it is blank.
            Refused: 413, it is too long.
        """
        _encodable(self.name, "name")
        return _checked(self.prompt, "prompt", "the prompt", max_chars)


def _checked(text: str, field: str, what: str, max_chars: int) -> str:
    if not text.strip():
        raise InvalidRequest(f"{what} is empty; write something", field=field)
    if len(text) > max_chars:
        raise too_large(
            f"{what} has {len(text)} characters and {max_chars} are allowed (front.max_message_chars)", field
        )
    return _encodable(text, field)


def _encodable(text: str, field: str) -> str:
    """JSON can spell half of a surrogate pair, which no UTF-8 text can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{field}: character {error.start} is half of a surrogate pair", field=field) from None
    return text


def _text_of(part: dict[str, Any], index: int) -> str:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    named = repr(kind)[:40] if kind != "text" else "'text' without a text"
    raise InvalidRequest(
        f"content.{index} is of type {named}; only parts of type 'text' are read here", field=f"content.{index}"
    )
