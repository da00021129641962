"""What each setting is and where it came from, for ``hermes-tasks config``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from hermes_tasks.settings.keys import dotted
from hermes_tasks.settings.models import Models
from hermes_tasks.settings.root import Settings
from hermes_tasks.settings.types import shown


@dataclass(frozen=True, slots=True)
class Source:
    """One setting as an operator sees it: secrets are ``(set)`` or ``(not set)``."""

    key: str
    value: str
    source: str


def sources(settings: Settings) -> list[Source]:
    """Every setting with its shown value and where it came from, in the order of the classes."""
    return [
        Source(key, shown(value), settings.origin(key))
        for key, value in ((dotted(path), value) for path, value in _values(settings, ()))
    ]


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Models):
        below: dict[str, Any] = {**value.named, "use": value.use}
    elif isinstance(value, BaseModel):
        below = {name: getattr(value, name) for name in type(value).model_fields}
    elif isinstance(value, dict):
        below = {str(name): inner for name, inner in value.items()}
    else:
        yield path, value
        return
    for name, inner in below.items():
        yield from _values(inner, (*path, name))
