"""``hermes-tasks users``: who may use this installation. Works on the store itself, so it needs no front."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_tasks.settings import Settings
    from hermes_tasks.store.users import User, Users

T = TypeVar("T")
#: Opens the users of an installation. A caller's own goes into the context: ``app(obj=…)``.
OpenUsers = Callable[["Settings"], AbstractAsyncContextManager["Users"]]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="User id: 1 to 64 of a-z 0-9 . _ -")]
_ZONE_HELP = "IANA time zone, such as Europe/Lisbon."
_LANGUAGE_HELP = "Language of the user, such as pt."

users_app = typer.Typer(help="Who may use this installation.", no_args_is_help=True)


@asynccontextmanager
async def users_of_store(settings: Settings) -> AsyncIterator[Users]:
    """The users of the store that the settings name."""
    from hermes_tasks.wiring.admin import open_admin

    async with open_admin(settings) as admin:
        yield admin.users


@users_app.command("add")
def add(
    context: typer.Context,
    name: NameArgument,
    zone: Annotated[str, typer.Option("--zone", help=_ZONE_HELP)] = "UTC",
    language: Annotated[str, typer.Option("--language", help=_LANGUAGE_HELP)] = "",
    home: HomeOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a user and print their bearer key.

    The key is shown this once; only its hash is kept.

    Examples:
      hermes-tasks users add ada --zone Europe/Lisbon --language pt
    """
    key = _run(context, home, config, lambda users: users.add(name, zone=zone, language=language))
    if as_json:
        print_json({"user": name, "zone": zone, "language": language, "key": key})
        return
    print(f"user {name}")
    print(f"key  {key}")


@users_app.command("list")
def list_users(
    context: typer.Context, home: HomeOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List all users.

    Reads the store itself, so it needs no front.

    Examples:
      hermes-tasks users list

      hermes-tasks users list --json | jq '.[].user'
    """
    found = _run(context, home, config, lambda users: users.all())
    if as_json:
        print_json([_shown(user) for user in found])
        return
    rows = [(user.id, user.state, user.zone, user.language or "-") for user in found]
    print_table(("user", "state", "zone", "language"), rows, "no users; make one with: hermes-tasks users add NAME")


@users_app.command("set")
def set_user(
    context: typer.Context,
    name: NameArgument,
    zone: Annotated[str | None, typer.Option("--zone", help=_ZONE_HELP)] = None,
    language: Annotated[str | None, typer.Option("--language", help=_LANGUAGE_HELP)] = None,
    home: HomeOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the time zone or the language of a user.

    Takes effect with the next turn or fire. --language "" forgets the language.

    Examples:
      hermes-tasks users set ada --zone America/New_York
    """
    user = _run(context, home, config, lambda users: users.change(name, zone=zone, language=language))
    if as_json:
        print_json(_shown(user))
        return
    print(f"user {user.id}: zone {user.zone}, language {user.language or '-'}")


def _run(context: typer.Context, home: Path | None, config: Path | None, call: Callable[[Users], Awaitable[T]]) -> T:
    from hermes_tasks.settings import load

    open_users: OpenUsers = context.obj or users_of_store

    async def work(settings: Settings) -> T:
        async with open_users(settings) as users:
            return await call(users)

    with told_in_one_line():
        return asyncio.run(work(load(home, config)))


def _shown(user: User) -> dict[str, str]:
    return {"user": user.id, "state": user.state, "zone": user.zone, "language": user.language}
