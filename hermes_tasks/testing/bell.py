"""A bell that publishes nothing and remembers everything."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_tasks.contracts.bell import Ring


class RecordingBell:
    """See :class:`hermes_tasks.contracts.bell.Bell`. A test decides which doorbells arrive, how often and when.

    Attributes:
        rings: everything that was rung and not taken yet, oldest first.
    """

    def __init__(self) -> None:
        self.rings: list[Ring] = []

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Remember them."""
        self.rings.extend(rings)

    def take(self, task: str | None = None) -> list[Ring]:
        """What was rung (for ``task``; None = for all) since the last call, oldest first; it is forgotten here."""
        taken = [ring for ring in self.rings if task in (None, ring.task)]
        self.rings = [ring for ring in self.rings if task not in (None, ring.task)]
        return taken

    def ids(self, task: str | None = None) -> list[str]:
        """As :meth:`take`, but only what each doorbell was for: its last argument."""
        return [ring.args[-1] for ring in self.take(task)]
