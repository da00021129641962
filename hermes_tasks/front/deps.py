"""What endpoints ask for: the services, the user behind the key, ids that can exist, and bounded pages."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Header, Path, Query, Request

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.ids import NAME
from hermes_tasks.front.keys import Keys
from hermes_tasks.front.pressure import Pressure
from hermes_tasks.front.services import FrontServices
from hermes_tasks.store.users import User

#: Run ids are longer than session ids: a review's contains its session's.
_RUN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,255}")
_PAGE: Final = 50
_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class FrontState:
    """What one app holds while it runs. ``stopping`` is set when it takes no new work and streams must end."""

    services: FrontServices
    keys: Keys
    pressure: Pressure
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def state_of(request: Request) -> FrontState:
    """The state of the app that serves ``request``."""
    state: FrontState = request.app.state.front
    return state


async def the_user(request: Request, authorization: Annotated[str | None, Header()] = None) -> User:
    """The active user whose key the request carries."""
    user = await state_of(request).keys.user_of(authorization)
    request.state.user = user.id
    return user


async def new_work(request: Request) -> None:
    """Return if the store has room for new work."""
    state_of(request).pressure.check()


def a_session(session: Annotated[str, Path()]) -> str:
    """A session id that can exist; any other does not."""
    if not NAME.fullmatch(session):
        raise NotFound("there is no such session", field="session")
    return session


def a_run(run: Annotated[str, Path()]) -> str:
    """A run id that can exist; any other does not."""
    if not _RUN.fullmatch(run):
        raise NotFound("there is no such run", field="run")
    return run


def a_batch(batch: Annotated[str, Path()]) -> str:
    """A batch id that can exist; any other does not."""
    if not _RUN.fullmatch(batch):
        raise NotFound("there is no such batch", field="batch")
    return batch


State = Annotated[FrontState, Depends(state_of)]
TheUser = Annotated[User, Depends(the_user)]
SessionId = Annotated[str, Depends(a_session)]
RunId = Annotated[str, Depends(a_run)]
BatchId = Annotated[str, Depends(a_batch)]
Limit = Annotated[int, Query(ge=1, le=_MOST)]
PAGE: Final = _PAGE
NEW_WORK: Final = (Depends(new_work),)
