"""What the client returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """An accepted message.

    Attributes:
        message: its id, which is also the run id of its turn.
        accepted: False when the same key was used before: ``message`` is then the first one's.
        session: where it went.
    """

    message: str
    accepted: bool
    session: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a session; ``type`` is a word of :class:`~hermes_tasks.contracts.events.EventType`."""

    id: str
    type: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a turn ended.

    Attributes:
        text: the answer; what there is of it when the turn did not complete.
        state: the terminal state of its run: ``completed``, ``failed`` …
        error: why it has no answer, in one line, or None.
    """

    text: str
    state: str
    exit_reason: str | None
    run: str
    turn: int
    error: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """True when the user's message was answered."""
        return self.state == "completed"


def answer_of(data: Mapping[str, Any]) -> Answer:
    """The answer that the data of a ``turn.ended`` event tells."""
    return Answer(
        text=data.get("text") or "", state=data["state"], exit_reason=data.get("exit_reason"), run=data["run"],
        turn=int(data["turn"]), error=data.get("error") or None, usage=data.get("usage") or {},
    )  # fmt: skip
