"""Which worker role serves which queue. Each queue is served by exactly one role (a test checks it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_tasks.contracts.kinds import Queue


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of worker process. How many there are, and how much each takes, stands in its launcher file."""

    name: str
    queues: tuple[Queue, ...]


ROLES: Final[dict[str, Role]] = {
    role.name: role
    for role in (
        Role("turns", (Queue.TURNS,)),
        Role("delegation", (Queue.DELEGATION,)),
        Role("review", (Queue.REVIEW,)),
        Role("memory", (Queue.MEMORY,)),
        Role("cron", (Queue.CRON,)),
        Role("prefetch", (Queue.PREFETCH,)),
        Role("curator", (Queue.CURATOR,)),
        Role("delivery", (Queue.DELIVERY,)),
    )
}
