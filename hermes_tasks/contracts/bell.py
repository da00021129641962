"""Doorbells: the message that says "look at this record". The record is the truth, the bell only saves waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes_tasks.contracts.kinds import Queue


@dataclass(frozen=True, slots=True)
class Ring:
    """One doorbell.

    Attributes:
        queue: where it goes.
        task: the short name of the task function (``child``, ``drain`` …).
        args: ids only, never user text.
    """

    queue: Queue
    task: str
    args: tuple[str, ...]


class Bell(Protocol):
    """Publishes doorbells."""

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Publish all, off the event loop. Never raises for a broker that is away: recovery rings again."""
        ...
