"""The arguments of the ``memory`` tool: what the model is told to send, and what is made of what it sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hermes_tasks.contracts.memory import Document
from hermes_tasks.memory.documents import Action, Operation

MAX_OPERATIONS: Final = 50


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a character (a lone surrogate), send it whole") from None
    return text


_Text = Annotated[str, AfterValidator(_whole)]


class _Operation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Action
    content: _Text | None = None
    old_text: _Text | None = None

    def value(self) -> Operation:
        return Operation(self.action, self.content or "", self.old_text or "")


class Request(BaseModel):
    """One checked call."""

    model_config = ConfigDict(extra="forbid")

    target: Document | None
    action: Action | None = None
    content: _Text | None = None
    old_text: _Text | None = None
    operations: tuple[_Operation, ...] | None = Field(default=None, max_length=MAX_OPERATIONS)

    @property
    def document(self) -> Document:
        """The document it is about."""
        return self.target or Document.MEMORY

    @property
    def batch(self) -> bool:
        """True for the form with ``operations``; the single fields are then not looked at."""
        return bool(self.operations)

    def values(self) -> tuple[Operation, ...]:
        """The operations in order; empty when the call asks for none."""
        if self.operations:
            return tuple(operation.value() for operation in self.operations)
        return (Operation(self.action, self.content or "", self.old_text or ""),) if self.action else ()


def parsed(args: Mapping[str, Any]) -> Request | str:
    """The call as values, or in one line what is wrong with it and what is accepted."""
    try:
        request = Request.model_validate(args)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = list(first["loc"])
        if len(place) > 1 and place[0] == "operations":
            place[:2] = [f"operation {int(place[1]) + 1}"]
        return f"{': '.join(str(part) for part in place)}: {first['msg']}"
    if not request.values():
        return "give action (add, replace or remove), or a list of operations"
    return request


def schema(limits: Mapping[Document, int]) -> dict[str, Any]:
    """The function's schema, with the limits that are in force."""
    action = {"type": "string", "enum": [str(action) for action in Action]}
    content = {"type": "string", "description": "The new text: for add the entry, for replace what takes its place."}
    old_text = {
        "type": "string",
        "description": (
            "For replace and remove: the exact text of the entry, or a part that only that entry has. replace changes "
            "just this text and keeps the rest of the entry; remove deletes the whole entry."
        ),
    }
    return {
        "name": "memory",
        "description": (
            "Remember facts for later conversations. target 'user': who the user is, preferences, ways of working "
            f"({limits[Document.USER]} characters in all). target 'memory': your own notes on projects, tools and "
            f"lessons ({limits[Document.MEMORY]} characters in all). Write short facts that stay true; no secrets, no "
            "progress of the task at hand, nothing that is easily looked up. To make room, send one call with "
            "operations: they all happen or none does, and only the final size counts. What you write shows in the "
            "prompt of later conversations, not of this one; a success is final, do not repeat it."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "target": {"type": "string", "enum": [str(document) for document in Document]},
                "action": action,
                "content": content,
                "old_text": old_text,
                "operations": {
                    "type": "array",
                    "description": "Several changes of one target at once, instead of action.",
                    "maxItems": MAX_OPERATIONS,
                    "items": {
                        "type": "object",
                        "properties": {"action": action, "content": content, "old_text": old_text},
                        "required": ["action"],
                    },
                },
            },
            "required": ["target"],
        },
    }
