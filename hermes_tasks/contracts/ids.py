"""Ids: UUIDv7 for what is new, derived keys for what must exist at most once, and the rule for user ids."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import uuid_utils

from hermes_tasks.contracts.errors import InvalidRequest

USER_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
#: What callers may choose themselves (session ids, idempotency keys): no separators of ours, no spaces.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def new_id() -> str:
    """A new UUIDv7: unique, and sorted by the time it was made."""
    return str(uuid_utils.uuid7())


def derived_id(*parts: str | int) -> str:
    """The same 128-bit hex id for the same parts, on any machine.

    Used where a thing must exist once however often it is asked for: a fire of a job, a child of a call.
    """
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def checked_user_id(value: object) -> str:
    """Return ``value`` if it is a valid user id.

    Raises:
        InvalidRequest: anything else. Ids are refused, never folded: ``U-17`` and ``u-17`` must not meet.
    """
    if isinstance(value, str) and USER_ID.fullmatch(value):
        return value
    shown = repr(value)[:80]
    raise InvalidRequest(
        f"invalid user id {shown}: use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit", field="user"
    )


def checked_name(value: object, field: str) -> str:
    """Return ``value`` if it may be used as a caller-chosen id.

    Raises:
        InvalidRequest: it is not 1 to 128 of ``A-Z a-z 0-9 . _ -``.
    """
    if isinstance(value, str) and NAME.fullmatch(value):
        return value
    shown = repr(value)[:80]
    raise InvalidRequest(f"invalid {field} {shown}: use 1 to 128 of A-Z a-z 0-9 . _ -", field=field)
