"""What a run that did not finish leaves behind: its last words and a bounded excerpt of the work it finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hermes_tasks.agent.progress import all_progress, is_blank
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.safety.masking import mask_secrets

_TOTAL_CHARS: Final = 4_000
_TEXT_CHARS: Final = 4_000
_ARGUMENT_CHARS: Final = 120
_RESULT_CHARS: Final = 600


def partial_text(steps: Sequence[AnyStep], streaming: str = "") -> str:
    """The last text (``streaming``: what arrived of an answer that was broken off) and the newest finished calls.

    At most about 8,000 characters; secrets are masked. Empty when nothing was said or finished.
    """
    found = all_progress(steps)
    last_text = next((p.answer.text.strip() for p in reversed(found) if not is_blank(p.answer.text)), "")
    blocks = [clip(last_text if is_blank(streaming) else streaming.strip(), _TEXT_CHARS)]
    lines: list[str] = []
    room, left_out = _TOTAL_CHARS, 0
    for progress in reversed(found):
        for number in sorted(progress.results, reverse=True):
            step = progress.results[number]
            arguments = progress.answer.calls[number].arguments if number < len(progress.answer.calls) else ""
            line = (
                f"- {step.name} {clip(arguments, _ARGUMENT_CHARS)}: {step.status}: {clip(step.content, _RESULT_CHARS)}"
            )
            if len(line) > room:
                left_out += 1
                room = 0
                continue
            room -= len(line)
            lines.append(line)
    if lines:
        earlier = [f"- ({left_out} earlier results left out)"] if left_out else []
        blocks.append("\n".join(["[Finished before the end]", *earlier, *reversed(lines)]))
    return mask_secrets("\n\n".join(block for block in blocks if block))


def clip(text: str, limit: int) -> str:
    """The text, or its head and tail with a note of how much is missing between, in about ``limit`` characters."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} […{len(text) - limit} characters left out…] {text[-tail:]}"
