"""Drains a session's channel into the built-in memory: in order, once, and fair to other sessions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Final

from hermes_tasks.contracts.errors import InvalidRequest, LeaseLost, StoreUnavailable
from hermes_tasks.contracts.memory import Entry, EntryKind
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.safety.scrubber import scrub
from hermes_tasks.store.channel import Channel, Draining

#: Most characters kept of each side of a turn. The history has the whole; this is for recall.
MAX_TEXT_CHARS: Final = 2000
_LOOKED_AT: Final = 2 * MAX_TEXT_CHARS

_log = get_logger(__name__)

Render = Callable[[Entry], Awaitable[str | None]]


def remembered(entry: Entry) -> str | None:
    """What the built-in memory keeps of an entry, as JSON; None when there is nothing to keep.

    Only a turn's words are kept, without secrets and recalled blocks. What opened a turn counts as said by the user
    only if it was.
    """
    if entry.kind is not EntryKind.TURN:
        return None
    said = entry.data.get("user") if entry.data.get("origin", "user") == "user" else ""
    user, assistant = _kept(said), _kept(entry.data.get("assistant"))
    if not user and not assistant:
        return None
    document = {
        "v": 1, "session": entry.session, "pos": entry.pos, "turn": entry.turn, "turn_id": entry.turn_id,
        "at": entry.at, "user": user, "assistant": assistant,
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False)


async def _remembered(entry: Entry) -> str | None:
    await asyncio.sleep(0)  # masking takes about a millisecond per thousand characters: others go on in between
    return remembered(entry)


class Drainer:
    """Applies what waits in channels.

    Args:
        batch: most entries per script.
        batches: most batches before the cursor is given back.
        slice_s: most seconds before the cursor is given back, looked at between batches.
        render: makes the document of an entry; a benchmark hands in a body that takes its time.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        batch: int = 64,
        batches: int = 16,
        slice_s: float = 2.0,
        render: Render | None = None,
    ) -> None:
        self._channel, self._batch, self._batches, self._slice_s = channel, batch, batches, slice_s
        self._render = render or _remembered

    async def drain(self, user: str, session: str, consumer: str) -> None:
        """Apply the next entries of a cursor, if it is free, until none is left or its slice is over.

        What is left is rung for again by the script that gives the cursor back. A second call, at any time, applies
        nothing twice.

        Raises:
            StoreUnavailable: the store did not answer the claim; recovery rings again.
        """
        try:
            draining = await self._channel.claim(user, session, consumer, self._batch)
        except InvalidRequest as error:  # a late bell of a user who is gone
            _log.info("nothing to drain", user=user, session=session, channel=consumer, reason=str(error))
            return
        if draining is None:
            return
        try:
            await self._slice(draining)
        except LeaseLost as error:
            _log.info("lease lost", user=user, session=session, channel=consumer, reason=str(error))

    async def _slice(self, draining: Draining) -> None:
        until = time.monotonic() + self._slice_s
        for number in range(1, self._batches + 1):
            documents = await self._documents(draining)
            over = number == self._batches or time.monotonic() >= until
            if not await self._apply(draining, documents, 0 if over else self._batch):
                return

    async def _documents(self, draining: Draining) -> list[str]:
        try:
            made = [await self._render(entry) for entry in draining.entries]
        except BaseException:
            # The lease would be renewed as long as the process lives, and nobody could go on.
            draining.entries = []
            await self._apply(draining, [], 0)
            raise
        return [document for document in made if document is not None]

    async def _apply(self, draining: Draining, documents: list[str], more: int) -> bool:
        """Goes on asking while the store is away. The lease is not renewed then: whoever takes it over is right."""
        while True:
            try:
                return await self._channel.apply(draining, documents, more)
            except StoreUnavailable as error:
                about = {"user": draining.user, "session": draining.session, "channel": draining.consumer}
                _log.warning("channel waits for the store", **about, error=str(error))


def _kept(text: object) -> str:
    if not isinstance(text, str):
        return ""
    text = scrub(text).encode(errors="replace").decode().strip()
    if len(text) > _LOOKED_AT:
        text = text[:_LOOKED_AT].rsplit(maxsplit=1)[0]  # never half a word: half a secret would not be recognised
    clean = mask_secrets(text)
    return clean if len(clean) <= MAX_TEXT_CHARS else clean[: MAX_TEXT_CHARS - 1] + "…"
