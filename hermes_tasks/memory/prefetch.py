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
_TAGS: Final = re.compile(r"<[ \t]{0,8}/?[ \t]{0,8}memory-context[ \t]{0,8}>[ \t]*\n?", re.IGNORECASE)

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
        self._hanging: dict[asyncio.Task[object], tuple[str, str]] = {}

    async def prefetch_all(self, query: str, *, user: str, session: str) -> str:
        """What the providers recall for ``query``, joined by blank lines; never raises and is never late.

        A provider that fails, hangs or answers nothing adds nothing; faults are logged.
        """
        if not query.strip():
            return ""
        tasks = {
            provider.name: asyncio.create_task(self._ask(provider, query, user, session))
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
        answers = [self._answer(name, task, user, session) for name, task in tasks.items()]
        return "\n\n".join(answer for answer in answers if answer)

    def _may_ask(self, name: str, user: str) -> bool:
        hanging = list(self._hanging.values())
        return (name, user) not in hanging and Counter(of for of, _ in hanging)[name] < _MOST_HANGING

    async def _ask(self, provider: MemoryProvider, query: str, user: str, session: str) -> object:
        async with asyncio.timeout(self._patience_s):
            return await provider.prefetch(query, user=user, session=session)

    def _answer(self, name: str, task: asyncio.Task[object], user: str, session: str) -> str:
        about = {"provider": name, "user": user, "session": session}
        if not task.done():
            self._hanging[task] = (name, user)
            task.add_done_callback(self._ended)
            _log.warning("recall is late and left out", **about)
            return ""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            _log.warning("recall failed and is left out", **about, error=type(error).__name__)
            return ""
        text = task.result()
        if not isinstance(text, str):
            _log.warning("recall is not text and is left out", **about, got=type(text).__name__)
            return ""
        return text.strip()[:MAX_PROVIDER_CHARS]

    def _ended(self, task: asyncio.Task[object]) -> None:
        name, user = self._hanging.pop(task)
        failed = not task.cancelled() and task.exception() is not None
        _log.info("a late recall ended", provider=name, user=user, failed=failed)


def fence(recall: str) -> str:
    """The recall as one fenced block for the model's copy of a message, or nothing for a blank recall.

    Fences and notes that a provider put around its text are taken off, so there is exactly one of each; the
    scrubber takes exactly this block out of what a user may read.
    """
    text = _NOTES.sub("", _TAGS.sub("", recall)).strip()
    return fenced(f"{NOTE}\n\n{text}") if text else ""
