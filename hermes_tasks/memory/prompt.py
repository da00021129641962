"""The MEMORY and USER blocks of the system prompt, made from the documents as they were read. Deterministic.

An entry that smells of an attack is replaced in the block only: the document keeps it, so that its owner can find
and remove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.prompt import Layer, PromptSection
from hermes_tasks.memory.documents import DELIMITER, usage
from hermes_tasks.memory.vetting import threats_in
from hermes_tasks.store.memory import DocumentState, Memory

_RULE: Final = "═" * 46
_TITLES: Final = {
    Document.MEMORY: "MEMORY (your own notes)",
    Document.USER: "USER (who the user is)",
}


def memory_sections(
    states: Mapping[Document, DocumentState], limits: Mapping[Document, int]
) -> tuple[PromptSection, ...]:
    """One section per document that has entries, MEMORY first. The same states always give the same bytes."""
    return tuple(
        PromptSection(Layer.VOLATILE, str(name), _block(name, states[name].entries, limits[name]))
        for name in _TITLES
        if name in states and states[name].entries
    )


async def read_sections(memory: Memory, user: str, limits: Mapping[Document, int]) -> tuple[PromptSection, ...]:
    """The sections of the user's documents as they are now; the caller pins them."""
    return memory_sections({name: await memory.document(user, name) for name in _TITLES}, limits)


def _block(name: Document, entries: tuple[str, ...], limit: int) -> str:
    shown = DELIMITER.join(_shown(name, entry) for entry in entries)
    return f"{_RULE}\n{_TITLES[name]} [{usage(entries, limit)}]\n{_RULE}\n{shown}"


def _shown(name: Document, entry: str) -> str:
    found = threats_in(entry)
    if not found:
        return entry
    return f"[BLOCKED: an entry of {name.upper()} is left out: it matches {', '.join(found)}. Its owner can remove it.]"
