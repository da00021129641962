"""Memory: entries of a channel, what a provider must offer, and the two documents."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field


class EntryKind(StrEnum):
    """What an entry of a channel is about."""

    TURN = "turn"
    SKIPPED = "skipped"
    MEMORY_WRITE = "memory_write"
    DELEGATION = "delegation"
    SESSION_END = "session_end"
    SESSION_SWITCH = "session_switch"
    AFTER = "after"
    ERASE = "erase"


class Entry(BaseModel):
    """One entry of a session's channel. ``pos`` is its place; the drain follows positions only."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pos: int = 0
    kind: EntryKind
    session: str
    turn: int = 0
    turn_id: str = ""
    at: int = 0
    data: dict[str, Any] = Field(default_factory=dict)


class Recalled(BaseModel):
    """One thing a provider remembers about a query."""

    model_config = ConfigDict(frozen=True)

    text: str
    session: str = ""
    turn: int = 0
    score: float = 0.0


class MemoryProvider(Protocol):
    """What every memory provider offers. User and session are named in every call."""

    name: str

    async def prefetch(self, query: str, *, user: str, session: str) -> str:
        """Text worth recalling for ``query``, or an empty string."""
        ...


class Document(StrEnum):
    """The two documents injected into the prompt."""

    MEMORY = "memory"
    USER = "user"
