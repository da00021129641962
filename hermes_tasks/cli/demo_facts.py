"""What happened in a demo, as read from the API and from the records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes_tasks.contracts.runs import RunRecord


@dataclass(slots=True)
class Facts:
    """What happened, as read from the API and from the records."""

    answers: list[tuple[str, str, str]] = field(default_factory=list)  # (user, question, answer)
    children: list[RunRecord] = field(default_factory=list)
    front_pid: str = ""
    reviews: list[RunRecord] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    other_memory: dict[str, Any] = field(default_factory=dict)
    inbox: list[dict[str, Any]] = field(default_factory=list)
    channels: list[tuple[str, str, int, int]] = field(default_factory=list)  # (user, session, appended, applied)
    remembered: list[tuple[str, int]] = field(default_factory=list)  # (session, turn) in the order of memory
    turns: dict[str, int] = field(default_factory=dict)  # session → completed turns of user me
    recalled: str = ""
    not_recalled: str = ""
