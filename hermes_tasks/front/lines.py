"""A run's steps as lines to read: who said or did what. Long texts are cut, secrets masked (spec 1.1.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolStep
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.safety.scrubber import scrub

#: Caps of the peer's live transcripts, characters.
_SAID: Final = 600
_ARGUMENTS: Final = 220
_RESULT: Final = 400


def lines_of(steps: Sequence[AnyStep], after: int = 0) -> list[dict[str, Any]]:
    """The lines of every step from index ``after`` on, each ``{step, who, name, status, text}``.

    ``who`` is ``model``, ``call``, ``result`` or ``summary``.
    """
    found: list[dict[str, Any]] = []
    for index in range(after, len(steps)):
        found += _lines(index, steps[index])
    return found


def _lines(index: int, step: AnyStep) -> list[dict[str, Any]]:
    match step:
        case ModelStep():
            said = [_line(index, "model", text=_short(step.text, _SAID))] if step.text.strip() else []
            calls = (
                _line(index, "call", name=call.name, text=_short(call.arguments, _ARGUMENTS)) for call in step.calls
            )
            return [*said, *calls]
        case ToolStep():
            return [_line(index, "result", name=step.name, status=step.status, text=_short(step.content, _RESULT))]
        case SummaryStep():
            return [_line(index, "summary", text=_short(step.text, _SAID))]
        case StartedStep():
            return []


def _line(index: int, who: str, *, text: str, name: str = "", status: str = "") -> dict[str, Any]:
    return {"step": index, "who": who, "name": name, "status": status, "text": text}


def _short(text: str, most: int) -> str:
    """Masked before it is cut, with room behind the cut: half a secret is not recognised as one."""
    shown = mask_secrets(scrub(text[: 4 * most]))
    return shown if len(text) <= most and len(shown) <= most else shown[: most - 1] + "…"
