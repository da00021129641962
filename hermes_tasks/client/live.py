"""The text of one turn while it is written, put together from events in the order in which they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_tasks.contracts.events import EventType


class LiveText:
    """Follows one run's text through restarts and gaps. What a step finally said replaces what was seen of it.

    Args:
        run: the run id; pieces of other runs are ignored.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self._pieces: dict[int, tuple[int, str]] = {}
        self._done: dict[int, str] = {}

    @property
    def text(self) -> str:
        """Everything so far: the steps in order, a blank line between them."""
        return "\n\n".join(text for _, text in self.steps() if text.strip())

    def steps(self) -> list[tuple[int, str]]:
        """(step, text so far), in order."""
        texts = {step: text for step, (_, text) in self._pieces.items()} | self._done
        return sorted(texts.items())

    def unfinished(self) -> list[tuple[int, str]]:
        """Those of :meth:`steps` that only pieces are known of."""
        return [(step, text) for step, text in self.steps() if step not in self._done]

    def finish(self, step: int, text: str) -> None:
        """The whole text of a step is known; later pieces of it are ignored."""
        self._done[step] = text

    def feed(self, type: str, data: Mapping[str, Any]) -> bool:
        """Take one event; True when the text changed."""
        if type == EventType.RESYNC:
            return self._resync(data.get("open") or {})
        if data.get("run") != self.run:
            return False
        if type == EventType.TEXT:
            return self._piece(int(data["step"]), int(data.get("attempt", 0)), str(data["text"]))
        if type == EventType.STEP_RESTARTED:
            return self._pieces.pop(int(data["step"]), None) is not None
        return False

    def _piece(self, step: int, attempt: int, text: str) -> bool:
        before, so_far = self._pieces.get(step, (attempt, ""))
        if step in self._done or attempt < before:
            return False
        self._pieces[step] = (attempt, text if attempt > before else so_far + text)
        return True

    def _resync(self, opened: Mapping[str, Any]) -> bool:
        if opened.get("run") != self.run:
            return False
        self._pieces.clear()
        for step in opened.get("steps") or []:
            if step["done"]:
                self._done[int(step["step"])] = str(step["text"])
            else:
                self._pieces[int(step["step"])] = (int(step.get("attempt", 0)), str(step["text"]))
        return True
