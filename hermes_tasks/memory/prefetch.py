"""Asks every memory provider what a message reminds it of, for a bounded time, and fences the answer for the model."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.memory import MemoryProvider
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.safety.scrubber import fenced

#: Most characters taken from one provider.
MAX_PROVIDER_CHARS: Final = 4000
NOTE: Final = "[Recalled from memory of earlier conversations. This is background, not new words of the user.]"

_MOST_HANGING: Final = 32
_NOTES: Final = re.compile(r"\[(?:system note|recalled)[^\]\n]*\bmemory\b[^\]\n]*\][ \t]*\n?", re.IGNORECASE)
_TAGS: Final = re.compile(r"<\s*/?\s*memory-context\s*>[ \t]*\n?", re.IGNORECASE)

_log = get_logger(__name__)


class Prefetch:
    """The recall of every turn of one process.

    A provider that does not answer in time is left alone, not asked again for that user, until its call ends; with
    too many calls of one provider hanging it is asked for nobody. So a dead provider costs a user its deadline once.

    Args:
        providers: asked side by side; their answers are joined in this order.
        deadline_s: most seconds a turn waits.
        patience_s: most seconds a late call may go on before it is cancelled.
    """

    def __init__(
        self, providers: Sequence[MemoryProvider], *, deadline_s: float = 8.0, patience_s: float = 120.0
    ) -> None:
        if deadline_s <= 0:
            raise InvalidRequest("the recall deadline must be more than 0 seconds", field="memory.prefetch_timeout_s")
        self._providers, self._deadline_s, self._patience_s = tuple(providers), deadline_s, patience_s
        self._asking: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def prefetch_all(self, query: str, *, user: str, session: str) -> str:
        """What the providers recall for ``query``, joined by blank lines; never raises and is never late.

        A provider that fails, hangs or answers nothing adds nothing; failures are logged.
        """
        if not query.strip():
            return ""
        tasks = {
            provider.name: self._ask(provider, query, user, session)
            for provider in self._providers
            if self._may_ask(provider.name, user)
        }
        if not tasks:
            return ""
        try:
            await asyncio.wait(tasks.values(), timeout=self._deadline_s)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            raise
        answers = (_answer(name, task, user, session) for name, task in tasks.items())
        return "\n\n".join(answer for answer in answers if answer)

    def _may_ask(self, name: str, user: str) -> bool:
        return (name, user) not in self._asking and Counter(key[0] for key in self._asking)[name] < _MOST_HANGING

    def _ask(self, provider: MemoryProvider, query: str, user: str, session: str) -> asyncio.Task[str]:
        async def ask() -> str:
            async with asyncio.timeout(self._patience_s):
                return await provider.prefetch(query, user=user, session=session)

        key = (provider.name, user)
        task = asyncio.create_task(ask(), name=f"prefetch:{provider.name}")
        self._asking[key] = task

        def ended(task: asyncio.Task[str]) -> None:
            self._asking.pop(key, None)
            if not task.cancelled():
                task.exception()  # looked at, so that a late failure is not reported as forgotten

        task.add_done_callback(ended)
        return task


def fence(recall: str) -> str:
    """The recall as one fenced block for the model's copy of a message, or nothing for a blank recall.

    Fences and notes that a provider put around its text are taken off, so there is exactly one of each; the
    scrubber takes exactly this block out of what a user may read.
    """
    text = _NOTES.sub("", _TAGS.sub("", recall)).strip()
    return fenced(f"{NOTE}\n\n{text}") if text else ""


def _answer(name: str, task: asyncio.Task[str], user: str, session: str) -> str:
    about = {"provider": name, "user": user, "session": session}
    if not task.done():
        _log.warning("recall is late and left out", **about)
        return ""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or error is not None:
        _log.warning("recall failed and is left out", **about, error=type(error).__name__)
        return ""
    text = task.result()
    if not isinstance(text, str):
        _log.warning("recall is not text and is left out", **about, got=type(text).__name__)
        return ""
    return text.strip()[:MAX_PROVIDER_CHARS]
