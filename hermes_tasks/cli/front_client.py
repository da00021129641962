"""The front of this home as the commands reach it: its address, the user's key, and one call from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from hermes_tasks.client import Client
    from hermes_tasks.settings import Settings

#: The user that ``up`` makes, for whoever runs it.
ME: Final = "me"
UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of the front. Default: from the settings.")
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file", metavar="FILE", help="File with the bearer key. Default: the one of user me in the home."
    ),
]
T = TypeVar("T")


def open_client(home: Path | None, config: Path | None, url: str | None, key_file: Path | None) -> Client:
    """A client of the front that options and settings name, with the key of user ``me`` unless another is given.

    Raises:
        InvalidRequest: the settings, the URL or the key cannot be used.
        NotFound: the key's file does not exist.
    """
    from hermes_tasks.client import Client
    from hermes_tasks.settings import load
    from hermes_tasks.store.home_files import read_secret

    settings = load(home, config)
    path = settings.paths.user_key(ME) if key_file is None else key_file.expanduser()
    return Client(url or front_url(settings), read_secret(path))


def front_url(settings: Settings) -> str:
    """Where the front of these settings is reached from this machine."""
    from hermes_tasks.observe.ports import local_url

    return local_url(settings.front.host, settings.front.port)


def with_client(client: Client, call: Callable[[Client], Awaitable[T]]) -> T:
    """The result of ``call`` in an event loop of its own; the client is closed afterwards."""

    async def work() -> T:
        async with client:
            return await call(client)

    return asyncio.run(work())
