"""Tool calls put together from streamed fragments, however loosely a provider shapes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_tasks.contracts.steps import ToolCall


@dataclass(slots=True)
class _Draft:
    """One call while its fragments arrive."""

    id: str = ""
    name: str = ""
    _parts: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return well_formed("".join(self._parts))

    @property
    def whole(self) -> bool:
        """Whether the arguments so far are a finished JSON text."""
        if len(self._parts) > 1 and self._parts[-1].rstrip()[-1:] not in ("}", "]"):
            return False  # spares joining and parsing them at every fragment
        try:
            json.loads(self.arguments)
        except ValueError:
            return False
        return True

    def add(self, ident: str, name: str, arguments: str) -> None:
        self.id = self.id or ident
        self.name = self.name or name
        if arguments:
            self._parts.append(arguments)


class CallAssembler:
    """Collects fragments in the order they come and decides which call each belongs to."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def add(self, item: object) -> None:
        """Take one entry of ``delta.tool_calls``; what is no object at all is left out."""
        if not isinstance(item, Mapping):
            return
        function = item.get("function")
        source = function if isinstance(function, Mapping) else item
        ident = _text(item.get("id"))
        name = _text(source.get("name")).strip()
        arguments = _arguments(source.get("arguments"))
        index = _index(item.get("index"))
        draft = self._draft_for(index, ident, name)
        if draft is None:
            draft = _Draft()
            self._drafts.append(draft)
        if index is not None:
            self._by_index[index] = draft
        draft.add(ident, name, arguments)

    @property
    def whole(self) -> bool:
        """Whether the arguments of every call are finished JSON."""
        return all(draft.whole for draft in self._drafts)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order, each with an id of its own within the answer.

        One without a name is kept if it has arguments, under the empty name: the model is to be told, not ignored.
        """
        kept = [draft for draft in self._drafts if draft.name or draft.arguments]
        used: set[str] = set()
        result = []
        for place, draft in enumerate(kept):
            ident = draft.id or f"call_{place}"
            while ident in used:
                ident += "_"
            used.add(ident)
            result.append(ToolCall(id=ident, name=draft.name, arguments=draft.arguments))
        return tuple(result)

    def _draft_for(self, index: int | None, ident: str, name: str) -> _Draft | None:
        """The call a fragment goes on with, or None when it begins one."""
        if index is not None and index in self._by_index:
            draft = self._by_index[index]
            return None if _begins_another(draft, ident, name) else draft
        known = next((draft for draft in self._drafts if ident and draft.id == ident), None)
        last = self._drafts[-1] if self._drafts else None
        if index is not None:
            # A new index begins a call, unless the fragment can only be the rest of one that came without an index.
            numbered = any(draft is last for draft in self._by_index.values())
            return last if last and not (name or ident or numbered or last.whole) else None
        if known is not None:
            return None if _begins_another(known, ident, name) else known
        if last is None or not name:
            return last
        repeats_name = not ident and last.name == name and bool(last.arguments) and not last.whole
        return last if repeats_name else None


def _begins_another(draft: _Draft, ident: str, name: str) -> bool:
    """Whether a fragment at the index of ``draft`` is nevertheless another call.

    Some providers number every call 0. Then only a second name tells them apart; a second id alone does not,
    since others invent a new id for each fragment of one call.
    """
    if not name or not draft.name:
        return False
    if ident and ident == draft.id:
        return name != draft.name and draft.whole
    return draft.whole if draft.arguments else name != draft.name


def well_formed(text: str) -> str:
    """``text`` as valid Unicode: halves of a character that were sent apart are joined, single halves replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _index(value: object) -> int | None:
    text = _text(value)
    return int(text) if text.isdecimal() else None


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
