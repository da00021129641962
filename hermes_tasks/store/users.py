"""Users: their record, and the bearer keys that stand for them. Keys are stored as SHA-256 only."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, ConfigDict

from hermes_tasks.contracts.errors import Conflict, InvalidRequest, NotFound
from hermes_tasks.contracts.ids import checked_user_id, new_id
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import user_key

_REGISTRY: Final = "ht:users"
_KEYS: Final = "ht:keys"
#: As BCP 47 writes it: pt, pt-BR, zh-Hant-TW; "" = not known.
_LANGUAGE: Final = re.compile(r"(?:[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,3})?")


class User(BaseModel):
    """A user's record as others see it. ``zone`` is an IANA name; ``model`` overrides ``models.use`` when set."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    state: str = "active"
    zone: str = "UTC"
    language: str = ""
    model: str = ""
    created: int = 0


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def checked_zone(zone: str) -> str:
    """Return ``zone`` if it is an IANA zone name.

    Raises:
        InvalidRequest: it is not.
    """
    if zone in available_timezones():
        ZoneInfo(zone)
        return zone
    raise InvalidRequest(f"unknown time zone {zone[:80]!r}: use an IANA name such as Europe/Lisbon", field="zone")


def checked_language(language: str) -> str:
    """Return ``language`` if it is a language tag, or empty.

    Raises:
        InvalidRequest: it is not.
    """
    if _LANGUAGE.fullmatch(language):
        return language
    raise InvalidRequest(f"unknown language {language[:80]!r}: use a tag such as pt or pt-BR", field="language")


class Users:
    """Who may use the system."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, user: str, *, zone: str = "UTC", language: str = "", key: str | None = None) -> str:
        """Make a user and return a new bearer key, which is shown once and stored hashed.

        Raises:
            InvalidRequest: bad id, zone or language.
            Conflict: the user exists.
        """
        checked_user_id(user)
        fields = ("zone", checked_zone(zone), "language", checked_language(language))
        # The registry first: a name in it without a record is harmless, a record outside it would never be swept.
        await self._store.read(("SADD", _REGISTRY, user))
        answer = await self._store.call("user_put", user, "add", new_id(), *fields)
        if answer["r"] == "exists":
            raise Conflict(f"user {user} exists; change it with: hermes-tasks users set {user}", field="user")
        return await self.new_key(user, key)

    async def new_key(self, user: str, key: str | None = None) -> str:
        """Give the user another bearer key (or store the given one) and return it."""
        value = key or "ht_" + secrets.token_urlsafe(32)
        await self._store.read(("HSET", _KEYS, _digest(value), user))
        return value

    async def change(self, user: str, *, zone: str | None = None, language: str | None = None) -> User:
        """Change fields of a user; takes effect with the next turn or fire.

        Raises:
            NotFound: there is no such user.
            InvalidRequest: bad zone or language, or nothing to change.
        """
        fields: list[str] = []
        if zone is not None:
            fields += ["zone", checked_zone(zone)]
        if language is not None:
            fields += ["language", checked_language(language)]
        if not fields:
            raise InvalidRequest("nothing to change: give --zone or --language")
        await self.get(user)
        await self._store.call("user_put", user, "set", new_id(), *fields)
        return await self.get(user)

    async def get(self, user: str) -> User:
        """The user's record.

        Raises:
            NotFound: there is no such user, or it was erased.
        """
        [record] = await self._store.read(("HGETALL", user_key(checked_user_id(user))))
        if not record or record.get("state") == "erased":
            raise NotFound(f"there is no user {user}; make one with: hermes-tasks users add {user}", field="user")
        return User(id=user, **record)

    async def all(self) -> list[User]:
        """Every user, by id."""
        [names] = await self._store.read(("SMEMBERS", _REGISTRY))
        records = await self._store.read(*(("HGETALL", user_key(name)) for name in sorted(names))) if names else []
        return [User(id=name, **record) for name, record in zip(sorted(names), records, strict=True) if record]

    async def of_key(self, key: str) -> str | None:
        """Whose key this is, or None."""
        [user] = await self._store.read(("HGET", _KEYS, _digest(key)))
        return str(user) if user else None
