"""The plan of a fire: pinned at its first claim."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.prompt import Layer, PromptSection
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.cron.strategy import CronStrategy
from hermes_tasks.testing.journal import MemoryJournal, MemoryRun, memory_run

pytestmark = pytest.mark.anyio

POLICY = Policy(iterations=5, deadline_s=60, memory="read", model="small")


def fire() -> MemoryRun:
    run = memory_run(POLICY, kind=RunKind.CRON)
    run.record = run.record.model_copy(update={"session": "", "spec": {"job": "j", "prompt": "say hello", "slot": 1}})
    return run


def strategy(block: str = "MEMORY of ann", time: str = "Monday") -> CronStrategy:
    async def sections(user: str) -> Sequence[PromptSection]:
        assert user == "ann"
        return [PromptSection(Layer.VOLATILE, "memory", block), PromptSection(Layer.VOLATILE, "user", "")]

    async def now_words(user: str) -> str:
        assert user == "ann"
        return time

    return CronStrategy(lambda policy: ({"name": "terminal"},) if policy == POLICY else (), sections, now_words)


async def test_the_plan_is_the_prompt_with_the_owners_memory_and_time() -> None:
    plan = await strategy().prepare(MemoryJournal(fire()))
    assert plan.messages == ({"role": "user", "content": "say hello\n\n[Monday]"},)
    assert plan.system.startswith("You are a scheduled job")
    assert plan.system.endswith("\n\nMEMORY of ann"), "an empty section leaves nothing"
    assert (plan.model, plan.tools) == ("small", ({"name": "terminal"},))


async def test_a_later_holder_gets_the_bytes_of_the_first() -> None:
    run = fire()
    first = await strategy().prepare(MemoryJournal(run))
    assert await strategy("changed", "Tuesday").prepare(MemoryJournal(run)) == first


def test_nobody_watches_it() -> None:
    assert strategy().events(MemoryJournal(fire()), ProgressNote(kind="text", step=0, text="x")) == ()
