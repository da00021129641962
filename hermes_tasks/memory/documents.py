"""The two documents as values: entries, their limit, and what an operation makes of them. Pure.

A document is a list of trimmed entries, no two of them equal. Its size is the number of code points of the entries
joined by ``DELIMITER``; a size equal to the limit is allowed.

Which entry an ``old_text`` means: the entry that equals it, else the only entry that contains it. Several different
entries that contain it are refused. Case, dashes and accents are compared as they are.

``replace`` puts ``content`` in the place of ``old_text`` and keeps the rest of the entry; with a whole entry as
``old_text`` that is the whole entry. ``remove`` deletes the entry. No operation touches any other entry.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

DELIMITER: Final = "\n§\n"
_PREVIEW_CHARS: Final = 80


class Action(StrEnum):
    """What an operation does."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as it was asked for; nothing is checked yet."""

    action: Action
    content: str = ""
    old_text: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What a document becomes. ``entries`` equal to the present ones: there is nothing to write."""

    entries: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing changes, and what helps.

    Attributes:
        matches: previews of the entries an ambiguous ``old_text`` could mean.
        needed: the size the document would have had, in characters, when it did not fit.
    """

    error: str
    matches: tuple[str, ...] = ()
    needed: int | None = None


#: Looks at a new entry: the text as it may be stored, or why it may not.
Vet = Callable[[str], str | Refusal]


def size(entries: Sequence[str]) -> int:
    """Code points of the joined text."""
    return len(DELIMITER.join(entries))


def usage(entries: Sequence[str], limit: int) -> str:
    """How full a document is, in the one form in which it is shown anywhere."""
    now = size(entries)
    return f"{min(100, 100 * now // limit)}% — {now}/{limit} chars"


def preview(text: str) -> str:
    """The text in one line of at most 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW_CHARS else line[: _PREVIEW_CHARS - 1] + "…"


def apply(entries: tuple[str, ...], operation: Operation, limit: int, vet: Vet) -> Change | Refusal:
    """What ``operation`` makes of a document.

    Args:
        limit: most code points of the joined text.
        vet: called with every text that would become an entry.
    """
    done = _apply(entries, operation, vet)
    return done if isinstance(done, Refusal) else _fitting(entries, done, limit)


def apply_all(entries: tuple[str, ...], operations: Sequence[Operation], limit: int, vet: Vet) -> Change | Refusal:
    """What all ``operations``, in order, make of a document; one that is refused refuses them all.

    Only the final size counts. A refusal names the position of its operation, from 1.
    """
    now, messages = entries, []
    for number, operation in enumerate(operations, 1):
        done = _apply(now, operation, vet)
        if isinstance(done, Refusal):
            return replace(done, error=f"operation {number}: {done.error}; nothing was changed")
        now = done.entries
        messages.append(f"{number}: {done.message}")
    return _fitting(entries, Change(now, "; ".join(messages)), limit)


def _apply(entries: tuple[str, ...], operation: Operation, vet: Vet) -> Change | Refusal:
    if operation.action is Action.ADD:
        return _add(entries, operation.content, vet)
    if operation.action is Action.REPLACE and not operation.content.strip():
        return Refusal("replace needs content, the new text; use remove to delete an entry")
    place = _find(entries, operation.action, operation.old_text.strip())
    if isinstance(place, Refusal):
        return place
    if operation.action is Action.REMOVE:
        return Change(entries[:place] + entries[place + 1 :], f"removed: {preview(entries[place])}")
    return _replace(entries, place, operation, vet)


def _add(entries: tuple[str, ...], content: str, vet: Vet) -> Change | Refusal:
    if not content.strip():
        return Refusal("add needs content, the text to remember")
    text = _entry(content, vet)
    if isinstance(text, Refusal):
        return text
    if text in entries:
        return Change(entries, "already there, nothing was written")
    alike = next((entry for entry in entries if _folded(entry) == _folded(text)), None)
    if alike is not None:
        return Change(entries, f"already there but for letter case or spacing, nothing was written: {preview(alike)}")
    return Change((*entries, text), "added")


def _replace(entries: tuple[str, ...], place: int, operation: Operation, vet: Vet) -> Change | Refusal:
    old, content, entry = operation.old_text.strip(), operation.content.strip(), entries[place]
    if entry == old:
        made, message = content, "replaced"
    elif entry.find(old, entry.find(old) + 1) >= 0:
        return Refusal("old_text stands more than once in that entry; quote more of it", matches=(preview(entry),))
    else:
        made, message = entry.replace(old, content), "replaced that part, the rest of the entry is kept"
    text = _entry(made, vet)
    if isinstance(text, Refusal):
        return text
    if text == entry:
        return Change(entries, "it says so already, nothing was written")
    others = entries[:place] + entries[place + 1 :]
    if text in others:
        return Change(others, "replaced; another entry said the same, so one of the two remains")
    return Change((*entries[:place], text, *entries[place + 1 :]), message)


def _find(entries: tuple[str, ...], action: Action, old: str) -> int | Refusal:
    if not old:
        return Refusal(f"{action} needs old_text, the text of the entry it is about; current_entries has them all")
    if old in entries:
        return entries.index(old)
    holding = list(dict.fromkeys(entry for entry in entries if old in entry))
    if not holding:
        return Refusal(f"no entry contains {preview(old)!r}; copy old_text exactly from current_entries")
    if len(holding) > 1:
        return Refusal(
            f"{preview(old)!r} is in {len(holding)} different entries; quote more, so that it names one of matches",
            matches=tuple(preview(entry) for entry in holding),
        )
    return entries.index(holding[0])


def _entry(text: str, vet: Vet) -> str | Refusal:
    vetted = vet(text.strip())
    if isinstance(vetted, Refusal):
        return vetted
    # With the line end, since an entry that ends in a line "§" would make a delimiter with what follows it.
    if DELIMITER in f"{vetted}\n":
        return Refusal("an entry cannot contain a line that is only §, which separates entries; write two entries")
    return vetted


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _fitting(before: tuple[str, ...], change: Change, limit: int) -> Change | Refusal:
    """A document that is over a lowered limit may still be made smaller."""
    needed, now = size(change.entries), size(before)
    if needed <= limit or needed < now:
        return change
    return Refusal(
        f"too long: it would be {needed} of {limit} characters, {needed - limit} too many (now {now}). Shorten or "
        "remove what matters least first, best in one call with operations; nothing was written",
        needed=needed,
    )
