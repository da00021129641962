"""Prompt sections: what strategies offer to the system prompt, as values that ``wiring`` orders."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Layer(IntEnum):
    """Where a section stands; lower comes first. All layers are pinned per session generation."""

    STABLE = 0
    CONTEXT = 1
    VOLATILE = 2


@dataclass(frozen=True, slots=True)
class PromptSection:
    """One block of the system prompt. Empty text = no block."""

    layer: Layer
    name: str
    text: str
