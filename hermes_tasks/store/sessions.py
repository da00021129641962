"""Sessions: opened, written to, and read back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from hermes_tasks.contracts.bell import Bell, Ring
from hermes_tasks.contracts.errors import Conflict, NotFound, StoreFull
from hermes_tasks.contracts.ids import checked_name, new_id
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.rings import rings_of


@dataclass(frozen=True, slots=True)
class Posted:
    """The answer to a message: its id (also the turn's run id), and whether it is new.

    ``begun`` is the run whose turn it opened, or "" while an earlier turn is open.
    """

    message: str
    accepted: bool
    begun: str = ""


def take_own(rings: list[Ring], run: str) -> list[Ring]:
    """The rings without the one for ``run``: the caller executes that run itself."""
    return [ring for ring in rings if not (ring.task == "turn" and ring.args[-1] == run)]


class Sessions:
    """The sessions of every user.

    Args:
        max_waiting: most messages that may wait for their turn in one session.
    """

    def __init__(self, store: Store, bell: Bell, *, max_waiting: int = 100) -> None:
        self._store, self._bell, self._max_waiting = store, bell, max_waiting

    async def open(self, user: str, session: str | None = None) -> str:
        """Make a session and return its id. An id that exists is returned unchanged."""
        name = checked_name(session, "session") if session is not None else new_id()
        await self._store.call("session_open", user, name)
        return name

    async def post(
        self, user: str, session: str, text: str, *, key: str = "", origin: str = "user", local: bool = False
    ) -> Posted:
        """Accept a message. It is durable when this returns, and exactly one turn will answer it.

        Args:
            key: idempotency key; the same key with the same body answers with the first message again.
            local: the caller executes the begun turn itself, so no doorbell is rung for it; if it dies, recovery rings.

        Raises:
            NotFound: there is no such session.
            Conflict: the key was used for another body.
            StoreFull: too many messages wait already.
        """
        if key:
            checked_name(key, "idempotency key")
        message = new_id()
        answer = await self._store.call(
            "message_post", user, session, message, json.dumps({"text": text, "origin": origin}, ensure_ascii=False),
            key, hashlib.sha256(text.encode()).hexdigest(), self._max_waiting, hint_ms=self._store.config.ring_ms,
        )  # fmt: skip
        if answer["r"] == "no_session":
            raise NotFound(f"there is no session {session}; open one first", field="session")
        if answer["r"] == "conflict":
            raise Conflict(f"idempotency key {key} was used for another message", field="idempotency key")
        if answer["r"] == "full":
            raise StoreFull(f"{answer['waiting']} messages already wait in session {session}; wait for an answer first")
        begun = str(answer.get("begun", ""))
        rings = rings_of(user, answer)
        await self._bell.ring(take_own(rings, begun) if local else rings)
        return Posted(str(answer["message"]), answer["r"] == "accepted", begun)

    async def stop(self, user: str, session: str) -> int:
        """End the session's open turn, the messages that wait for theirs, and what works for it in the background.

        The turns stand in the history as cancelled. Returns how many turns and batches were ended; a second call: 0.

        Raises:
            NotFound: there is no such session.
        """
        answer = await self._store.call("session_cancel", user, session, hint_ms=self._store.config.soon_ms)
        if answer["r"] == "no_session":
            raise NotFound(f"there is no session {session}", field="session")
        await self._bell.ring(rings_of(user, answer))
        return int(answer["turns"]) + int(answer["batches"])

    async def get(self, user: str, session: str) -> dict[str, str]:
        """The session's record.

        Raises:
            NotFound: there is no such session of this user.
        """
        [fields] = await self._store.read(("HGETALL", user_key(user, f"sess:{session}")))
        if not fields:
            raise NotFound(f"there is no session {session}", field="session")
        return dict(fields)

    async def recent(self, user: str, limit: int = 50) -> list[dict[str, str]]:
        """The user's sessions by last activity, newest first."""
        [names] = await self._store.read(("ZREVRANGE", user_key(user, "sessions"), 0, limit - 1))
        if not names:
            return []
        records = await self._store.read(*(("HGETALL", user_key(user, f"sess:{name}")) for name in names))
        return [dict(record) for record in records if record]

    async def history(self, user: str, session: str, start: int = 0, stop: int = -1) -> list[dict[str, Any]]:
        """Turns that ended, oldest first, as the store keeps them (``steps`` is a list of JSON texts)."""
        [texts] = await self._store.read(("LRANGE", user_key(user, f"hist:{session}"), start, stop))
        turns = []
        for text in texts:
            turn = json.loads(text)
            turn["steps"] = list(turn.get("steps") or [])  # the scripts encode an empty list as {}
            turns.append(turn)
        return turns

    async def waiting(self, user: str, session: str) -> list[tuple[str, str]]:
        """(id, text) of messages not yet in history: the open turn's first, then those in the inbox."""
        record, queued, messages = await self._store.read(
            ("HGET", user_key(user, f"sess:{session}"), "open"),
            ("LRANGE", user_key(user, f"inbox:{session}"), 0, -1),
            ("HGETALL", user_key(user, f"msg:{session}")),
        )
        ids = ([record] if record else []) + list(queued)
        return [(name, json.loads(messages[name])["text"]) for name in ids if name in messages]

    async def pinned_prompt(self, user: str, session: str, generation: int | None = None) -> str:
        """The system prompt pinned for a generation (None = the newest), or "" before its first turn."""
        [prompts] = await self._store.read(("HGETALL", user_key(user, f"prompt:{session}")))
        if not prompts:
            return ""
        return str(prompts.get(str(generation) if generation is not None else max(prompts, key=int), ""))
