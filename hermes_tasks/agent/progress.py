"""Where a run stands, read from its stored steps alone: the same answer in any process, after any crash."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolStep, Usage

_REASONING: Final = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_INVISIBLE: Final = re.compile(r"[\s\u200b\u200c\u200d\u2060\ufeff]+")


@dataclass(frozen=True, slots=True)
class Progress:
    """One stored model answer and what became of its calls.

    Attributes:
        index: place of the answer among the steps.
        results: call number to result.
        began: numbers of the calls that began, batches excluded.
        batches: call number to the batch it waits for.
    """

    index: int
    answer: ModelStep
    results: dict[int, ToolStep] = field(default_factory=dict)
    began: set[int] = field(default_factory=set)
    batches: dict[int, str] = field(default_factory=dict)

    @property
    def open_calls(self) -> list[int]:
        """Numbers of the calls without a result, in call order."""
        return [number for number in range(len(self.answer.calls)) if number not in self.results]


def all_progress(steps: Sequence[AnyStep]) -> list[Progress]:
    """Every model answer of the run with its calls, oldest first."""
    found: list[Progress] = []
    for index, step in enumerate(steps):
        if isinstance(step, ModelStep):
            found.append(Progress(index, step))
        elif found and isinstance(step, ToolStep):
            found[-1].results.setdefault(step.call, step)
        elif found and isinstance(step, StartedStep):
            if step.batch is None:
                found[-1].began.update(step.calls)
            else:
                found[-1].batches.update(dict.fromkeys(step.calls, step.batch))
    return found


def last_progress(steps: Sequence[AnyStep]) -> Progress | None:
    """The newest model answer with its calls, or None before the first one."""
    found = all_progress(steps)
    return found[-1] if found else None


def is_blank(text: str) -> bool:
    """True when a reader would see nothing of it: white space, or reasoning only."""
    return not _INVISIBLE.sub("", _REASONING.sub("", text))


def spent(steps: Sequence[AnyStep]) -> Usage:
    """Tokens of all stored answers and summaries."""
    total = Usage()
    for step in steps:
        if isinstance(step, ModelStep | SummaryStep):
            total = total.plus(step.usage)
    return total
