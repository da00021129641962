"""Turns what a script says must be rung into doorbells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.contracts.kinds import QUEUE_OF_KIND, Queue

_QUEUE_OF_TASK: Final[Mapping[str, Queue]] = {
    **{str(kind): queue for kind, queue in QUEUE_OF_KIND.items()},
    "drain": Queue.MEMORY,
    "deliver": Queue.DELIVERY,
}


def rings_of(user: str, answer: Mapping[str, Any]) -> list[Ring]:
    """The doorbells of one script's answer; the user's id goes first in each."""
    return [
        Ring(_QUEUE_OF_TASK[task], task, (user, *(str(arg) for arg in args)))
        for task, *args in answer.get("rings") or []
    ]
