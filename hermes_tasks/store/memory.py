"""Built-in memory: the two documents, and what was said, as the drain stored it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.store.client import PATIENT, Store
from hermes_tasks.store.journal import Guard
from hermes_tasks.store.keys import user_key


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document as it was read: writing compares ``version``."""

    version: int
    entries: tuple[str, ...]


class Memory:
    """The memory of every user."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def document(self, user: str, name: Document) -> DocumentState:
        """One document's present state."""
        [fields] = await self._store.read(("HMGET", user_key(user, f"doc:{name}"), "version", "entries"))
        return DocumentState(int(fields[0] or 0), tuple(json.loads(fields[1] or "[]")))

    async def write(
        self,
        user: str,
        name: Document,
        read: DocumentState,
        entries: tuple[str, ...],
        *,
        guard: Guard | None = None,
        step: ToolStep | None = None,
    ) -> DocumentState | None:
        """Replace a document if it is still what was read; with a guard, store the tool's step in the same script.

        Returns:
            The present state when somebody else wrote meanwhile (read it, decide again), else None: it is written.

        Raises:
            LeaseLost, RunCancelled: the guard's lease is gone; nothing was written.
        """
        who: tuple[str | int, ...] = ("", 0, "", 0, "")
        if guard is not None and step is not None:
            who = (guard.run, guard.fence, guard.holder, guard.index, step.model_dump_json())
        answer = await self._store.call(
            "doc_write", user, str(name), read.version, json.dumps(entries, ensure_ascii=False), *who, patience=PATIENT
        )
        if answer["r"] == "ok":
            return None
        if answer["r"] == "stale":
            return DocumentState(int(answer["version"]), tuple(json.loads(answer["entries"])))
        # Only guarded writes are refused otherwise.
        raise (guard or Guard(user, "", 0, "", 0)).refusal(str(answer["r"]))

    async def turns(self, user: str, limit: int = 2000) -> list[dict[str, Any]]:
        """What was said, oldest first: ``{session, pos, turn, turn_id, at, user, assistant}`` each."""
        [texts] = await self._store.read(("LRANGE", user_key(user, "mem:turns"), -limit, -1))
        return [json.loads(text) for text in texts]
