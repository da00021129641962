"""Text on its way to whoever watches: scrubbed of internal tags and put together to a few events a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.safety.scrubber import StreamingContextScrubber

#: At most one text event in this time; a reader does not see the difference, the store does.
COALESCE_S: Final = 0.03

Tell = Callable[[ProgressNote], Awaitable[None]]


class TextStream:
    """The text of one model step, from the provider's deltas to notes. One object per step; retries go through it.

    Args:
        step: the index the answer will have.
        tell: hands a note to the watchers.

    ``feed`` is called by the model client, :meth:`pump` runs beside it until :meth:`end` or cancellation.
    """

    def __init__(self, step: int, tell: Tell) -> None:
        self._step = step
        self._tell = tell
        self._scrubber = StreamingContextScrubber()
        self._pending: list[str] = []
        self._arrived = asyncio.Event()
        self._ended = asyncio.Event()
        self._shown = False
        self._all: list[str] = []

    @property
    def text(self) -> str:
        """What has arrived so far, scrubbed."""
        return "".join(self._all)

    async def feed(self, piece: str) -> None:
        """Take one delta. It never waits for the store, so a slow store does not slow the provider's stream."""
        self._take(self._scrubber.feed(piece))

    async def pump(self) -> None:
        """Send what arrives, the first piece at once; returns when the step has ended and everything is sent."""
        while not self._ended.is_set() or self._pending:
            await self._arrived.wait()
            self._arrived.clear()
            if self._pending:
                text = "".join(self._pending)
                self._pending.clear()
                self._shown = True
                await self._tell(ProgressNote(kind="text", step=self._step, text=text))
            with suppress(TimeoutError):
                async with asyncio.timeout(COALESCE_S):
                    await self._ended.wait()

    def end(self) -> None:
        """No more deltas will come; what the scrubber held back is shown if it is harmless."""
        self._take(self._scrubber.flush())
        self._ended.set()
        self._arrived.set()

    async def restart(self) -> None:
        """Forget this step's text, because the answer is asked for again; watchers are told if they saw any."""
        self._scrubber.reset()
        self._pending.clear()
        self._arrived.clear()
        self._all.clear()
        if self._shown:
            self._shown = False
            await self._tell(ProgressNote(kind="step_restarted", step=self._step))

    def _take(self, text: str) -> None:
        if text:
            self._all.append(text)
            self._pending.append(text)
            self._arrived.set()
