"""A bell that takes every doorbell to a worker of the same event loop: a fleet without broker and processes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import count

from hermes_tasks.contracts.bell import Ring
from hermes_tasks.runtime.tasks import Work
from hermes_tasks.testing.bell import RecordingBell
from hermes_tasks.testing.waiting import eventually


class LocalBell(RecordingBell):
    """Hands each doorbell over at once; what it asks for runs beside the caller, as in a fleet with free slots.

    Args:
        keeps: tasks that are only remembered, until a test takes or delivers them.

    Attributes:
        rung: everything that was rung, oldest first; ``rings`` are those of them that were not handed over.
        faults: what the work raised; a test that expects none asserts that it is empty.
    """

    def __init__(self, *, keeps: Collection[str] = ()) -> None:
        super().__init__()
        self.keeps = set(keeps)
        self.rung: list[Ring] = []
        self.faults: list[BaseException] = []
        self._workers: tuple[Work, ...] = ()
        self._number = count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def serve(self, *workers: Work) -> None:
        """From now on doorbells go to these workers in turn; to nobody while there is none."""
        self._workers = workers

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Hand over what is not kept."""
        self.rung.extend(rings)
        for ring in rings:
            if ring.task in self.keeps or not self._workers or self._closed:
                self.rings.append(ring)
            else:
                self._hand_over(ring)

    def deliver(self, task: str | None = None) -> int:
        """Hand over what was kept (of ``task``; None = all); returns how many doorbells that were."""
        taken = self.take(task)
        for ring in taken:
            self._hand_over(ring)
        return len(taken)

    async def settled(self, deadline: float = 10.0) -> None:
        """Return when nothing that was handed over is still at work.

        Args:
            deadline: seconds.

        Raises:
            AssertionError: something still is.
        """
        await eventually(lambda: not self._tasks, deadline, "all doorbells answered")

    def close(self) -> None:
        """Hand over nothing more."""
        self._closed = True

    def _hand_over(self, ring: Ring) -> None:
        worker = self._workers[next(self._number) % len(self._workers)]
        task = asyncio.create_task(_answer(worker, ring), name=f"doorbell {ring.task}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(error)


async def _answer(worker: Work, ring: Ring) -> None:
    match ring.task:
        case "drain":
            await worker.drain(*ring.args)
        case "deliver":
            await worker.deliver(*ring.args)
        case "reindex":
            await worker.reindex()
        case _:
            await worker.advance(*ring.args)
