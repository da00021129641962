"""The text of one turn while it is written, put together from events in the order in which they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_tasks.contracts.events import EventType


@dataclass(frozen=True, slots=True)
class StepText:
    """The text of one step. ``done``: it is whole; else it is what was seen so far of that ``attempt``."""

    step: int
    attempt: int
    text: str
    done: bool = False


class LiveText:
    """Follows one run's text through restarts and gaps. What a step finally said replaces what was seen of it.

    Args:
        run: the run id; pieces of other runs are ignored.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self._steps: dict[int, StepText] = {}

    @property
    def text(self) -> str:
        """Everything so far: the steps in order, a blank line between them."""
        return "\n\n".join(step.text for step in self.steps() if step.text.strip())

    def steps(self) -> list[StepText]:
        """The steps that said something, in order."""
        return [self._steps[number] for number in sorted(self._steps)]

    def finish(self, step: int, text: str) -> None:
        """The whole text of a step is known; later pieces of it are ignored."""
        self._steps[step] = StepText(step, 0, text, done=True)

    def feed(self, type: str, data: Mapping[str, Any]) -> bool:
        """Take one event; True when the text changed."""
        if type == EventType.RESYNC:
            return self._resync(data.get("open") or {})
        if data.get("run") != self.run:
            return False
        if type == EventType.TEXT:
            return self._piece(int(data["step"]), int(data.get("attempt", 0)), str(data["text"]))
        if type == EventType.STEP_RESTARTED:
            return self._dropped(int(data["step"]))
        return False

    def _piece(self, step: int, attempt: int, text: str) -> bool:
        before = self._steps.get(step)
        if before is not None and (before.done or attempt < before.attempt):
            return False
        so_far = before.text if before is not None and attempt == before.attempt else ""
        self._steps[step] = StepText(step, attempt, so_far + text)
        return True

    def _dropped(self, step: int) -> bool:
        before = self._steps.get(step)
        if before is None or before.done:
            return False
        del self._steps[step]
        return True

    def _resync(self, opened: Mapping[str, Any]) -> bool:
        if opened.get("run") != self.run:
            return False
        self._steps = {step["step"]: StepText(**step) for step in opened.get("steps") or []}
        return True
