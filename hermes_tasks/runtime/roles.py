"""Which worker role serves which queue. Each queue is served by exactly one role (a test checks it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_tasks.contracts.kinds import Queue


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of worker process.

    Attributes:
        queues: what it takes work from.
        processes: how many ``up`` and compose start; two where takeover is promised.
        slots: tasks at once in one process; a slot is a thread that waits, not a core.
    """

    name: str
    queues: tuple[Queue, ...]
    processes: int
    slots: int


ROLES: Final[dict[str, Role]] = {
    role.name: role
    for role in (
        Role("turns", (Queue.TURNS,), processes=2, slots=64),
        Role("delegation", (Queue.DELEGATION,), processes=2, slots=150),
        Role("review", (Queue.REVIEW,), processes=2, slots=32),
        Role("memory", (Queue.MEMORY,), processes=2, slots=16),
        Role("cron", (Queue.CRON,), processes=2, slots=32),
        Role("prefetch", (Queue.PREFETCH,), processes=1, slots=16),
        Role("curator", (Queue.CURATOR,), processes=1, slots=4),
        Role("delivery", (Queue.DELIVERY,), processes=1, slots=16),
    )
}
