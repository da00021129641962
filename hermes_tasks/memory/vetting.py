"""What may be kept for good: no text that tries to steer an agent, and no secret."""

from __future__ import annotations

from hermes_tasks.memory.documents import Refusal
from hermes_tasks.safety.masking import mask_secrets
from hermes_tasks.safety.threats import Scope, scan


def threats_in(text: str) -> tuple[str, ...]:
    """Ids of the patterns of an attack in ``text``, by the strict set; empty when there is none."""
    return scan(text, Scope.STRICT)


def safe_entry(text: str) -> str | Refusal:
    """The text with its secrets masked, or a refusal when it smells of an attack. Masked twice it stays the same."""
    found = threats_in(text)
    if found:
        return Refusal(
            f"this text cannot be remembered, it matches {', '.join(found)}: entries become part of the prompt. "
            "Write the fact itself in plain words"
        )
    return mask_secrets(text)


def safe_quote(text: str) -> str:
    """How a quoted ``old_text`` stands in the entries, which hold no secrets."""
    return mask_secrets(text)
