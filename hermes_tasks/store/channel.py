"""The ordered channel: append, claim, apply. A session's entries land in the order of their positions, once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.errors import Conflict, LeaseLost, NotFound
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.memory import Entry, EntryKind
from hermes_tasks.store.client import PATIENT, Store
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.renewer import Lease, Renewer
from hermes_tasks.store.rings import rings_of

BUILTIN = "builtin"


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _entries(session: str, raw: Any) -> list[Entry]:
    found = []
    for entry_id, flat in raw or []:
        fields = dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat
        found.append(
            Entry(
                pos=int(str(entry_id).split("-")[0]), kind=EntryKind(fields["kind"]), session=session,
                turn=int(fields["turn"]), turn_id=fields["turn_id"], at=int(fields["at"]),
                data=json.loads(fields["data"]),
            )
        )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to append. ``turn_id`` without a turn is an id of the entry itself, if the caller may come again."""

    kind: EntryKind
    data: dict[str, Any]
    turn: int = 0
    turn_id: str = ""


@dataclass(slots=True)
class Draining:
    """A claimed cursor with the entries to apply next, in order."""

    user: str
    session: str
    consumer: str
    lease: Lease
    pos: int
    entries: list[Entry] = field(default_factory=list)


class Channel:
    """The channels of every session.

    Args:
        renewer: keeps a claimed cursor's lease alive; None in processes that only append.
        kept: most turns the built-in memory keeps per user.
    """

    def __init__(self, store: Store, bell: Bell, renewer: Renewer | None = None, *, kept: int = 2000) -> None:
        self._store, self._bell, self._renewer, self._kept = store, bell, renewer, kept

    async def append(
        self, user: str, session: str, kind: EntryKind, data: dict[str, Any], *, turn: int = 0, turn_id: str = ""
    ) -> int | None:
        """Add one entry; returns its position, or None for a repeat. See :meth:`append_all`."""
        [position] = await self.append_all(user, session, [NewEntry(kind, data, turn, turn_id)])
        return position

    async def append_all(self, user: str, session: str, entries: Sequence[NewEntry]) -> list[int | None]:
        """Add entries in order, all of them or none; returns each one's position, None for a repeat.

        A turn number that comes again with its turn id, or an entry id that comes again, is a repeat and adds nothing.

        Raises:
            Conflict: a turn number was appended with another turn id; nothing was added.
            NotFound: there is no such session.
        """
        if not entries:
            return []
        flat = [
            text
            for entry in entries
            for text in (
                str(entry.kind),
                entry.turn,
                entry.turn_id or new_id(),
                json.dumps(entry.data, ensure_ascii=False),
            )
        ]
        answer = await self._store.call("channel_append", user, session, *flat, hint_ms=self._store.config.ring_ms)
        if answer["r"] == "no_session":
            raise NotFound(f"there is no session {session}", field="session")
        if answer["r"] == "conflict":
            raise Conflict(f"turn {answer['turn']} of session {session} is already {answer['known']}", field="turn")
        await self._bell.ring(rings_of(user, answer))
        return [int(position) or None for position in answer["positions"]]

    async def claim(self, user: str, session: str, consumer: str, batch: int) -> Draining | None:
        """Take a cursor's lease with its next entries, or None when there is nothing for us to do."""
        if self._renewer is None:
            raise LeaseLost("this process renews no leases, so it cannot drain")
        holder = new_id()
        answer = await self._store.call(
            "channel_claim", user, session, consumer, holder, batch, hint_ms=self._store.config.soon_ms
        )
        await self._bell.ring(rings_of(user, answer))
        if answer["r"] != "claimed":
            return None
        # Decoded before the lease is renewed: entries that cannot be read must not stay ours.
        entries = _entries(session, answer["entries"])
        lease = self._renewer.add(Lease("cur", user, f"{session}|{consumer}", int(answer["fence"]), holder))
        return Draining(user, session, consumer, lease, int(answer["pos"]), entries)

    async def apply(self, draining: Draining, documents: Sequence[str], more: int) -> bool:
        """Built-in memory: store ``documents`` and advance over ``draining.entries``, in one script.

        Args:
            documents: what to remember of the entries, JSON, in order.
            more: how many entries to take next; 0 gives the lease back.

        Returns:
            True when ``draining`` holds more entries now; False when the lease was given back.

        Raises:
            LeaseLost: another holder, position or last entry; nothing was written.
            StoreUnavailable: it did not answer; the lease runs out and another holder goes on.
        """
        last = draining.entries[-1] if draining.entries else None
        try:
            answer = await self._applied(draining, last, documents, more)
        except BaseException:
            self._let_go(draining)  # kept alive by the renewer, nobody could ever take the cursor again
            raise
        await self._bell.ring(rings_of(draining.user, answer))
        if answer["r"] == "more":
            draining.pos, draining.entries = int(answer["pos"]), _entries(draining.session, answer["entries"])
            return True
        self._let_go(draining)
        if answer["r"] == "lost":
            raise LeaseLost(f"cursor {draining.session}|{draining.consumer}: another holder or position")
        return False

    def _let_go(self, draining: Draining) -> None:
        if self._renewer is not None:
            self._renewer.drop(draining.lease)

    async def _applied(
        self, draining: Draining, last: Entry | None, documents: Sequence[str], more: int
    ) -> dict[str, Any]:
        return await self._store.call(
            "channel_apply", draining.user, draining.session, draining.consumer, draining.lease.fence,
            draining.lease.holder, draining.pos, last.pos if last else draining.pos,
            f"{last.at}|{last.turn_id}" if last else "", more, self._kept, *documents,
            hint_ms=self._store.config.soon_ms, patience=PATIENT,
        )  # fmt: skip

    async def state(self, user: str, session: str, consumer: str = BUILTIN) -> tuple[int, int]:
        """(position of the last entry, position applied)."""
        last, applied = await self._store.read(
            ("HGET", user_key(user, f"chan:{session}"), "pos"),
            ("HGET", user_key(user, f"cur:{session}|{consumer}"), "pos"),
        )
        return int(last or 0), int(applied or 0)
