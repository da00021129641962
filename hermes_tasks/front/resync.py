"""What a reader needs who missed events: the committed history, and the open turn so far."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final

from hermes_tasks.client import LiveText
from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep
from hermes_tasks.front.services import FrontServices
from hermes_tasks.front.shown import turn_shown
from hermes_tasks.safety.scrubber import scrub
from hermes_tasks.store.events import Event

#: Turns of history in a ``resync``; older ones are read page by page.
TURNS: Final = 20


def order(stream_id: str) -> tuple[int, int]:
    """The place of a stream id."""
    head, _, tail = stream_id.partition("-")
    return int(head), int(tail)


async def resync(services: FrontServices, user: str, session: str, newest: str) -> Event:
    """The event that replaces everything up to ``newest``; the events after it follow on.

    What is read here may be younger than ``newest``; readers take the events that tell it a second time as repeats.
    """
    record = await services.sessions.get(user, session)
    opened = await _open_turn(services, user, record, newest)
    # Last: a turn that ends meanwhile is then in the history, and never in neither.
    history = await services.sessions.history(user, session, -TURNS)
    return Event(newest, EventType.RESYNC, {"history": [turn_shown(turn) for turn in history], "open": opened})


async def turn_events(
    services: FrontServices, user: str, session: str, run: RunRecord, newest: str
) -> AsyncGenerator[Event, None]:
    """The kept events from the ``turn.started`` of ``run`` up to ``newest``; none when that is no longer kept."""
    if newest == "0-0":
        return
    # A record's times may be ahead of the stream's by what the time mark of the scripts holds back.
    start = max(0, run.created - 2 * services.store.config.lease_ms - 1)
    begun = False
    async with aclosing(services.events.follow(user, session, f"{start}-0")) as events:
        async for event in events:
            if event is None or order(event.id) > order(newest):
                return
            begun = begun or (event.type == EventType.TURN_STARTED and event.data.get("run") == run.id)
            if begun:
                yield event
            if event.id == newest:
                return


async def _open_turn(services: FrontServices, user: str, record: dict[str, str], newest: str) -> dict[str, Any] | None:
    session, run_id = record["id"], record.get("open") or ""
    if not run_id:
        return None
    try:
        run = await services.runs.get(user, run_id)
    except NotFound:
        return None
    live = LiveText(run_id)
    async with aclosing(turn_events(services, user, session, run, newest)) as events:
        async for event in events:
            live.feed(event.type, event.data)
    batches = []
    for index, step in enumerate(await services.runs.steps(user, run_id)):
        if isinstance(step, ModelStep):
            live.finish(index, scrub(step.text))
        elif isinstance(step, StartedStep) and step.batch:
            batches.append(step.batch)
    return {
        "run": run_id,
        "message": run_id,
        "turn": int(record.get("turns", 0)),
        "user": str(run.spec.get("text", "")) if run.spec.get("origin", "user") == "user" else "",
        "state": str(run.state),
        "steps": [asdict(step) for step in live.steps()],
        "children": [child for batch in batches for child in await _children(services, user, batch)],
    }


async def _children(services: FrontServices, user: str, batch: str) -> list[dict[str, Any]]:
    children = (await services.runs.batch(user, batch)).children
    return [
        {
            "run": child.id, "batch": batch, "index": child.index, "goal": scrub(str(child.spec.get("goal", ""))),
            "state": str(child.state),
        }
        for child in children
    ]  # fmt: skip
