"""Sessions over HTTP: open, write, read back, follow."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from hermes_tasks.front.bodies import OpenSession, PostMessage
from hermes_tasks.front.deps import NEW_WORK, PAGE, Limit, SessionId, State, TheUser
from hermes_tasks.front.shown import session_shown, turn_shown
from hermes_tasks.front.stream import EventStream, checked_event_id, find_start, frames

router = APIRouter(prefix="/v1")


@router.post("/sessions", status_code=201, dependencies=NEW_WORK)
async def open_session(state: State, user: TheUser, body: OpenSession | None = None) -> dict[str, Any]:
    """Open a session; one that is open already is answered unchanged."""
    return {"session": await state.services.sessions.open(user.id, body.session if body else None)}


@router.get("/sessions")
async def sessions(state: State, user: TheUser, limit: Limit = PAGE) -> dict[str, Any]:
    """The user's sessions, the last used first."""
    return {"sessions": [session_shown(record) for record in await state.services.sessions.recent(user.id, limit)]}


@router.get("/sessions/{session}")
async def one_session(state: State, user: TheUser, session: SessionId) -> dict[str, Any]:
    """One session, with the messages that are not answered yet."""
    record = await state.services.sessions.get(user.id, session)
    waiting = await state.services.sessions.waiting(user.id, session)
    return {**session_shown(record), "waiting": [{"message": name, "text": text} for name, text in waiting]}


@router.post("/sessions/{session}/messages", status_code=202, dependencies=NEW_WORK)
async def post_message(
    state: State,
    user: TheUser,
    session: SessionId,
    body: PostMessage,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Accept a message. The same ``Idempotency-Key`` and text again answers with the first message."""
    services = state.services
    text = body.said(services.front.max_message_chars)
    # A front that stops begins nothing: the doorbell then brings the turn to a worker.
    local = not state.stopping.is_set()
    posted = await services.sessions.post(user.id, session, text, key=idempotency_key or "", local=local)
    if local and posted.begun:
        services.start_turn(user.id, posted.begun)
    return {"message": posted.message, "accepted": posted.accepted, "session": session}


@router.post("/sessions/{session}/cancel")
async def stop(state: State, user: TheUser, session: SessionId) -> dict[str, Any]:
    """Stop a session: its open turn, the messages that wait, and what works for it in the background.

    They stand in the history as cancelled, and the session takes the next message at once. A second call: 0.
    """
    return {"session": session, "cancelled": await state.services.sessions.stop(user.id, session)}


@router.get("/sessions/{session}/history")
async def history(
    state: State,
    user: TheUser,
    session: SessionId,
    limit: Limit = PAGE,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> dict[str, Any]:
    """The session's turns, oldest first: the newest ``limit``, or those before turn number ``before``."""
    sessions = state.services.sessions
    await sessions.get(user.id, session)
    if before is None:
        turns = await sessions.history(user.id, session, -limit)
    elif before == 1:
        turns = []
    else:
        # Every turn ends with an entry, in order: turn n is entry n - 1.
        turns = await sessions.history(user.id, session, max(0, before - 1 - limit), before - 2)
    return {"session": session, "turns": [turn_shown(turn) for turn in turns]}


@router.get("/sessions/{session}/events")
async def events(
    state: State,
    user: TheUser,
    session: SessionId,
    last_event_id: Annotated[str | None, Header()] = None,
    asked_id: Annotated[str | None, Query(alias="last_event_id")] = None,
) -> Response:
    """The session's events from the open turn, or from after ``Last-Event-ID``, until the reader leaves."""
    last = checked_event_id(last_event_id if last_event_id is not None else asked_id)
    start = await find_start(state.services, user.id, session, last)
    return EventStream(frames(state.services, user.id, session, start, state.stopping))


@router.get("/channel/{session}")
async def channel(state: State, user: TheUser, session: SessionId) -> dict[str, Any]:
    """How far the session's channel is written to the built-in memory."""
    await state.services.sessions.get(user.id, session)
    appended, applied = await state.services.channel.state(user.id, session)
    return {"session": session, "appended": appended, "applied": applied}
