"""Keys are looked up, remembered for a moment, and forgotten in time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.front.errors import Refused
from hermes_tasks.front.keys import REMEMBER_S, Keys
from hermes_tasks.store.users import User

pytestmark = pytest.mark.anyio


class Clock:
    seconds = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class Users:
    def __init__(self) -> None:
        self.keys = {"k": "ada"}
        self.records = {"ada": User(id="ada")}
        self.asked = 0

    async def of_key(self, key: str) -> str | None:
        self.asked += 1
        return self.keys.get(key)

    async def get(self, user: str) -> User:
        if user not in self.records:
            raise NotFound("gone")
        return self.records[user]


def made() -> tuple[Keys, Users, Clock]:
    users, clock = Users(), Clock()
    return Keys(users, clock), users, clock  # type: ignore[arg-type]


async def status(keys: Keys, header: str | None) -> int:
    try:
        await keys.user_of(header)
    except Refused as error:
        return error.status_code
    return 200


@pytest.mark.parametrize("header", ["Bearer k", "bearer k", "BEARER   k "])
async def test_the_scheme_is_read_in_any_case(header: str) -> None:
    keys, _, _ = made()
    assert (await keys.user_of(header)).id == "ada"


@pytest.mark.parametrize("header", [None, "", "k", "Bearer", "Bearer ", "Basic k", "Bearer K", "Bearer " + "k" * 513])
async def test_anything_else_is_refused(header: str | None) -> None:
    keys, _, _ = made()
    assert await status(keys, header) == 401


async def test_a_key_is_asked_for_once_in_a_while() -> None:
    keys, users, clock = made()
    for _ in range(10):
        await keys.user_of("Bearer k")
    assert users.asked == 1
    clock.seconds = REMEMBER_S - 0.1
    del users.keys["k"]
    assert await status(keys, "Bearer k") == 200
    clock.seconds = REMEMBER_S + 0.1
    assert await status(keys, "Bearer k") == 401


async def test_a_disabled_user_is_refused_within_five_seconds() -> None:
    keys, users, clock = made()
    await keys.user_of("Bearer k")
    users.records["ada"] = User(id="ada", state="disabled")
    clock.seconds = 5.1
    assert await status(keys, "Bearer k") == 403
    del users.records["ada"]
    clock.seconds = 10.3
    assert await status(keys, "Bearer k") == 401


async def test_unknown_keys_are_not_remembered() -> None:
    keys, users, _ = made()
    assert await status(keys, "Bearer new") == 401
    users.keys["new"] = "ada"
    assert await status(keys, "Bearer new") == 200
