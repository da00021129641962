"""The conversation that the demo plays over HTTP, and what must hold afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hermes_tasks.cli.demo_facts import Facts
from hermes_tasks.cli.demo_show import Show
from hermes_tasks.client import Client
from hermes_tasks.contracts.clock import SystemClock
from hermes_tasks.contracts.errors import Retryable
from hermes_tasks.contracts.events import EventType
from hermes_tasks.observe.ports import local_url
from hermes_tasks.wiring.admin import ensure_user, open_admin

if TYPE_CHECKING:
    from hermes_tasks.settings import Settings

_TELL: Final = "Hello! My project is called Halcyon and I prefer green tea."
_DELEGATE: Final = "Research three things in parallel: tide tables, kayak routes, harbour fees."
_RECALL: Final = "What do you remember about me?"
_DIGEST: Final = "Morning digest: the news about Halcyon"
_JOB_IN_S: Final = 10


async def play(settings: Settings, show: Show) -> Facts:
    """Play it; returns when everything that was owed has happened, or 40 s have passed."""
    facts = Facts()
    url = local_url(settings.front.host, settings.front.port)
    mine = _key(await ensure_user(settings, "me"))
    theirs = _key(await ensure_user(settings, "guest"))
    async with Client(url, mine) as me, Client(url, theirs) as guest, open_admin(settings) as admin:
        moment = SystemClock().now() + timedelta(seconds=_JOB_IN_S)
        job = await me.add_job(_DIGEST, at=moment.isoformat(), name="digest")
        show.say(f"job for beat: {job['schedule']}")
        session, other = await me.open_session(), await guest.open_session()
        await _ask(me, "me", session, _TELL, facts, show)
        await _ask(guest, "guest", other, "Hello there.", facts, show)
        await _ask(me, "me", session, _DELEGATE, facts, show)
        show.say("waiting for the background: review, memory, digest")
        await _until(lambda: _settled(me, session), 40)
        second = await me.open_session()
        facts.recalled = await _ask(me, "me", second, _RECALL, facts, show)
        facts.not_recalled = await _ask(guest, "guest", other, _RECALL, facts, show)
        await _until(lambda: _landed(me, (session, second)), 20)
        await _until(lambda: _landed(guest, (other,)), 20)
        facts.memory, facts.other_memory = await me.memory(), await guest.memory()
        facts.inbox = await me.inbox()
        for user, client, names in (("me", me, (session, second)), ("guest", guest, (other,))):
            for name in names:
                state = await client.channel(name)
                facts.channels.append((user, name, state["appended"], state["applied"]))
        runs = await admin.runs.recent("me", 200)
        facts.children = sorted((run for run in runs if run.kind == "child"), key=lambda run: run.index)
        facts.reviews = [run for run in runs if run.kind == "review"]
        first = next(run for run in reversed(runs) if run.kind == "turn")
        facts.front_pid = first.worker
        facts.turns = {name: len(await me.history(name)) for name in (session, second)}
        facts.remembered = [(turn["session"], turn["turn"]) for turn in await admin.memory.turns("me")]
    return facts


def verdict(facts: Facts) -> list[str]:
    """What does not hold, one line each; empty when all is well."""
    children = facts.children
    workers = {run.worker for run in children}
    checks = {
        "three children of one batch": len(children) == 3 and len({run.batch for run in children}) == 1,
        "all three completed": all(run.state == "completed" for run in children),
        "the children overlapped in time": bool(children)
        and max(run.started for run in children) < min(run.ended for run in children),
        "they ran in other processes than the front": bool(workers) and facts.front_pid not in workers,
        "a review ran after each turn and is not in the conversation": len(facts.reviews) >= 1
        and all(run.state == "completed" for run in facts.reviews),
        "the review stored what the user told": "green tea" in str(facts.memory),
        "the next session remembered it": "green tea" in facts.recalled or "Halcyon" in facts.recalled,
        "the other user sees none of it": "Halcyon" not in facts.not_recalled + str(facts.other_memory)
        and "green tea" not in facts.not_recalled + str(facts.other_memory),
        "beat fired the job and its answer is in the inbox": [mail["status"] for mail in facts.inbox] == ["completed"],
        "every channel is applied to its end": all(last == applied for _, _, last, applied in facts.channels),
        "memory holds every turn once, in order": all(
            [turn for name, turn in facts.remembered if name == session] == list(range(1, count + 1))
            for session, count in facts.turns.items()
        ),
    }
    return [name for name, holds in checks.items() if not holds]


def _key(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


async def _ask(client: Client, user: str, session: str, text: str, facts: Facts, show: Show) -> str:
    """Ask over HTTP and show live what the event stream tells."""
    show.asks(user, text)
    sent = await client.send(session, text)
    answer = ""
    with show.live() as live:
        async with aclosing(client.watch(sent)) as events:
            async for event in events:
                live.take(event.type, event.data)
                if event.type == EventType.TURN_ENDED:
                    answer = str(event.data.get("text") or event.data.get("error") or "")
    show.answers(answer)
    facts.answers.append((user, text, answer))
    return answer


async def _settled(me: Client, session: str) -> bool:
    """Review done, turns in memory, digest delivered."""
    runs = await me.runs(200)
    reviews = [run for run in runs if run["kind"] == "review"]
    quiet = bool(reviews) and all(run["ended_ms"] for run in reviews)
    return quiet and bool(await me.inbox()) and await _landed(me, (session,))


async def _landed(client: Client, sessions: tuple[str, ...]) -> bool:
    states = [await client.channel(name) for name in sessions]
    return all(state["appended"] == state["applied"] > 0 for state in states)


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Wait for it; when it does not come the verdict says what is missing."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if await condition():
                        return
                except Retryable:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        return
