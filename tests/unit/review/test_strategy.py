"""A review's plan: the session as it was after the turn, one instruction, and no watchers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.review.strategy import ReviewStrategy
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.testing.journal import MemoryJournal, memory_run

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=16, deadline_s=60, toolsets=("memory",), memory="write")
MEMORY = {"name": "memory"}


class TwoTurns:
    """A session with two turns and a pinned prompt."""

    async def history(self, user: str, session: str) -> list[dict[str, Any]]:
        assert (user, session) == ("ann", "s9")
        return [turn(1), turn(2)]

    async def pinned_prompt(self, user: str, session: str) -> str:
        assert (user, session) == ("ann", "s9")
        return "the pinned prompt"


def turn(number: int) -> dict[str, Any]:
    step = f'{{"t":"model","text":"answer {number}"}}'
    return {"turn": number, "state": "completed", "opening": f"message {number}", "user": "", "steps": [step]}


def review(last: int) -> MemoryJournal:
    run = memory_run(POLICY, kind=RunKind.REVIEW)
    run.record = run.record.model_copy(update={"session": "", "spec": {"session": "s9", "turn": last}})
    return MemoryJournal(run)


STRATEGY = ReviewStrategy(cast("Sessions", TwoTurns()), lambda policy: (MEMORY,) if policy == POLICY else ())


async def test_it_replays_the_session_up_to_its_turn_and_ends_with_the_instruction() -> None:
    plan = await STRATEGY.prepare(review(1))
    assert plan.system == "the pinned prompt"
    assert [message["role"] for message in plan.messages] == ["user", "assistant", "user"]
    assert [message["content"] for message in plan.messages[:2]] == ["message 1", "answer 1"]
    assert str(plan.messages[2]["content"]).startswith("Review the conversation above.")
    assert plan.tools == (MEMORY,)
    later = await STRATEGY.prepare(review(2))
    assert later.messages[:2] == plan.messages[:2]
    assert [message["content"] for message in later.messages[2:4]] == ["message 2", "answer 2"]


@pytest.mark.parametrize("kind", ["text", "tool_started", "tool_ended", "step_restarted"])
def test_nobody_watches_it(kind: Any) -> None:
    assert STRATEGY.events(review(1), ProgressNote(kind=kind, step=0, text="x", name="memory")) == ()
