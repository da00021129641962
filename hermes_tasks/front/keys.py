"""Who is asking: bearer keys to users, remembered for a few seconds."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from hermes_tasks.contracts.clock import Clock
from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.front.errors import Refused
from hermes_tasks.store.users import User, Users

#: How long a key or state that changed may still have its old effect.
REMEMBER_S: Final = 5.0
_REMEMBERED: Final = 10_000
_KEY_CHARS: Final = 512


class Keys:
    """Maps the ``Authorization`` header to an active user. Unknown keys are never remembered."""

    def __init__(self, users: Users, clock: Clock) -> None:
        self._users, self._clock = users, clock
        self._known: OrderedDict[bytes, tuple[float, User]] = OrderedDict()

    async def user_of(self, authorization: str | None) -> User:
        """Whose key the header carries.

        Raises:
            Refused: 401 without a valid key, 403 for a user who is not active.
        """
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise Refused(401, "unauthorized", "send your key as: Authorization: Bearer <key>", field="authorization")
        user = await self._look_up(key) if len(key) <= _KEY_CHARS else None
        if user is None:
            raise Refused(401, "unauthorized", "unknown key; check it or ask for a new one", field="authorization")
        if user.state != "active":
            raise Refused(403, "forbidden", f"user {user.id} is {user.state}; ask your administrator", field="user")
        return user

    async def _look_up(self, key: str) -> User | None:
        digest = hashlib.sha256(key.encode()).digest()
        now = self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and known[0] > now:
            return known[1]
        name = await self._users.of_key(key)
        if name is None:
            self._known.pop(digest, None)
            return None
        try:
            user = await self._users.get(name)
        except NotFound:
            return None
        self._known[digest] = (now + REMEMBER_S, user)
        self._known.move_to_end(digest)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return user
