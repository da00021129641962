"""A turn's plan, pinned at its first claim, and the events of its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.prompt import Layer, PromptSection
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.testing.journal import MemoryJournal, MemoryRun, memory_run
from hermes_tasks.turns.strategy import IDENTITY, TurnStrategy

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=5, deadline_s=60, model="smart")
EARLIER = {
    "turn": 1, "state": "completed", "opening": "before", "user": "", "steps": ['{"t":"model","text":"was said"}'],
}  # fmt: skip


class StoredSession:
    """A session with one turn, and the prompts pinned per generation."""

    def __init__(self, pinned: Mapping[int, str] | None = None) -> None:
        self.pinned = dict(pinned or {})

    async def history(self, user: str, session: str) -> list[dict[str, Any]]:
        assert (user, session) == ("ann", "s1")
        return [EARLIER]

    async def pinned_prompt(self, user: str, session: str, generation: int) -> str:
        assert (user, session) == ("ann", "s1")
        return self.pinned.get(generation, "")


def turn(**more: Any) -> MemoryRun:
    run = memory_run(POLICY, kind=RunKind.TURN)
    run.record = run.record.model_copy(update={"spec": {"text": "hello"}, "turn": 2} | more)
    return run


def strategy(session: StoredSession | None = None, *, recall: str = "", time: str = "Monday") -> TurnStrategy:
    async def sections(user: str) -> Sequence[PromptSection]:
        blank = PromptSection(Layer.VOLATILE, "user", "")
        context = PromptSection(Layer.CONTEXT, "project", "the project")
        return [PromptSection(Layer.VOLATILE, "memory", "the memory"), blank, context]

    async def recalled(user: str, session: str, text: str) -> str:
        assert (user, session, text) == ("ann", "s1", "hello")
        return recall

    async def now_words(user: str) -> str:
        return time

    async def results(user: str, batch: str) -> str:
        return f"found by {batch} for {user}"

    stored = cast("Sessions", session or StoredSession())
    return TurnStrategy(stored, lambda _: ({"name": "memory"},), sections, recalled, now_words, results)


async def test_the_prompt_is_layered_and_the_message_comes_last() -> None:
    plan = await strategy(recall="<fenced>").prepare(MemoryJournal(turn()))
    assert plan.system == f"{IDENTITY.text}\n\nthe project\n\nthe memory"
    assert plan.messages == (
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "was said"},
        {"role": "user", "content": "hello\n\n<fenced>\n\n[Monday]"},
    )
    assert (plan.model, plan.policy, plan.tools) == ("smart", POLICY, ({"name": "memory"},))


async def test_without_recall_nothing_is_said_of_it() -> None:
    plan = await strategy().prepare(MemoryJournal(turn()))
    assert plan.messages[-1]["content"] == "hello\n\n[Monday]"


async def test_the_prompt_of_the_generation_is_kept() -> None:
    session = StoredSession({1: "an old one", 3: "pinned before"})
    assert (await strategy(session).prepare(MemoryJournal(turn(generation=3)))).system == "pinned before"
    assert (await strategy(session).prepare(MemoryJournal(turn(generation=4)))).system.startswith(IDENTITY.text)


async def test_a_later_holder_gets_the_bytes_of_the_first() -> None:
    run = turn()
    first = await strategy(recall="<fenced>").prepare(MemoryJournal(run))
    assert await strategy(recall="other", time="Tuesday").prepare(MemoryJournal(run)) == first


async def test_a_stored_opening_is_not_made_again() -> None:
    plan = await strategy(recall="other").prepare(MemoryJournal(turn(opening="hello\n\n[Sunday]")))
    assert plan.messages[-1]["content"] == "hello\n\n[Sunday]"


@pytest.mark.parametrize(
    ("note", "event"),
    [
        (
            ProgressNote(kind="text", step=3, text="piece"),
            (EventType.TEXT, {"run": "run-1", "step": 3, "attempt": 2, "text": "piece"}),
        ),
        (
            ProgressNote(kind="step_restarted", step=3),
            (EventType.STEP_RESTARTED, {"run": "run-1", "step": 3, "attempt": 2}),
        ),
        (
            ProgressNote(kind="tool_started", step=3, name="memory"),
            (EventType.TOOL_STARTED, {"run": "run-1", "name": "memory"}),
        ),
        (
            ProgressNote(kind="tool_ended", step=3, name="memory", status="ok"),
            (EventType.TOOL_ENDED, {"run": "run-1", "name": "memory", "status": "ok"}),
        ),
    ],
)
def test_everything_is_shown(note: ProgressNote, event: tuple[str, dict[str, Any]]) -> None:
    run = turn()
    MemoryJournal(run)
    assert strategy().events(MemoryJournal(run), note) == (event,)
