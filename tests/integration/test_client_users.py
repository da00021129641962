"""``hermes-tasks users`` on a real store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from typer.testing import CliRunner, Result

from hermes_tasks.cli.users import users_app
from hermes_tasks.settings import Settings
from hermes_tasks.store.client import Store
from hermes_tasks.store.users import Users


class Commands:
    def __init__(self, url: str, home: Path) -> None:
        self.url, self.home = url, home

    @asynccontextmanager
    async def open(self, settings: Settings) -> AsyncIterator[Users]:
        assert settings.home == self.home
        store = Store(self.url)
        try:
            yield Users(store)
        finally:
            await store.aclose()

    def run(self, *arguments: str) -> Result:
        result = CliRunner().invoke(users_app, [*arguments, "--home", str(self.home)], obj=self.open)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result


def test_users_are_added_listed_and_changed(store_url: str, tmp_path: Path) -> None:
    commands = Commands(store_url, tmp_path)
    assert commands.run("list").stdout.startswith("no users; make one with")
    added = commands.run("add", "ada", "--zone", "Europe/Lisbon", "--language", "pt")
    assert added.exit_code == 0
    name, key = (line.split()[1] for line in added.stdout.splitlines())
    assert name == "ada"
    assert key.startswith("ht_")
    other = json.loads(commands.run("add", "bob", "--json").stdout)
    assert (other["user"], other["zone"]) == ("bob", "UTC")
    assert other["key"] != key
    table = [line.split() for line in commands.run("list").stdout.splitlines()]
    assert table == [
        ["user", "state", "zone", "language"],
        ["ada", "active", "Europe/Lisbon", "pt"],
        ["bob", "active", "UTC", "-"],
    ]
    assert commands.run("set", "ada", "--zone", "Asia/Tokyo").stdout == "user ada: zone Asia/Tokyo, language pt\n"
    assert commands.run("set", "ada", "--language", "").exit_code == 0
    assert json.loads(commands.run("list", "--json").stdout)[0] == {
        "user": "ada", "state": "active", "zone": "Asia/Tokyo", "language": "",
    }  # fmt: skip


def test_what_is_wrong_is_told_in_one_line(store_url: str, tmp_path: Path) -> None:
    commands = Commands(store_url, tmp_path)
    commands.run("add", "ada")
    for arguments, code, words in (
        (("add", "ada"), 4, "user ada exists"),
        (("add", "U-17"), 2, "invalid user id 'U-17'"),
        (("add", "u/../v"), 2, "invalid user id"),
        (("add", ""), 2, "invalid user id ''"),
        (("add", "bob", "--zone", "Mars/Olympus"), 2, "unknown time zone 'Mars/Olympus'"),
        (("set", "nobody", "--zone", "UTC"), 2, "there is no user nobody"),
        (("set", "ada"), 2, "nothing to change"),
        (("set", "ada", "--zone", "x"), 2, "unknown time zone"),
    ):
        result = commands.run(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), arguments
        assert result.stderr.startswith("hermes-tasks: ")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
    assert commands.run("list", "--json").stdout.count('"user"') == 1


def test_the_store_may_be_away(tmp_path: Path) -> None:
    commands = Commands("redis://127.0.0.1:1/0", tmp_path)
    result = commands.run("list")
    assert result.exit_code == 3
    assert "the store does not answer" in result.stderr
