"""How a run waits for its model's provider and for its user's tokens: by giving everything back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from hermes_tasks.agent.day_budget import ANSWER_TOKENS, DayBudget
from hermes_tasks.agent.pausing import SHORT_S, AloneAdmission, backoff
from hermes_tasks.contracts.admission import Caller, Wait
from hermes_tasks.contracts.errors import ModelRefused, ModelUnavailable, RateLimited
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState, WaitReason
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.journal import memory_run
from hermes_tasks.testing.model import ScriptedModel, called, said
from hermes_tasks.testing.waiting import eventually
from tests.unit.agent.doubles import Bench, World

pytestmark = pytest.mark.anyio

FULL = Wait(WaitReason.PERMIT, 0, 7)


@dataclass
class Gate:
    """An ``Admission`` that says what the test wrote down, and keeps an account of its places."""

    answers: list[str | Wait] = field(default_factory=list)
    fallbacks: Mapping[str, Wait] = field(default_factory=dict)
    pause_s: float = 3.0
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    inside: bool = False

    async def enter(self, caller: Caller, model: str) -> str | Wait:
        assert not self.inside
        answer = self.answers.pop(0) if self.answers else model
        self.inside = isinstance(answer, str)
        self.seen.append(("enter", model, answer))
        return answer

    async def enter_fallback(self, caller: Caller, model: str) -> Wait | None:
        assert self.inside
        self.seen.append(("fallback", model))
        return self.fallbacks.get(model)

    async def leave(self, caller: Caller) -> None:
        self.inside = False
        self.seen.append(("leave",))

    async def limited(self, model: str, retry_after: timedelta | None) -> float:
        assert self.inside, "others must not come in before the pause"
        self.seen.append(("limited", model, retry_after))
        return self.pause_s


def bench(model: ScriptedModel, gate: Gate | None = None, kind: RunKind = RunKind.CHILD, **around: Any) -> Bench:
    policy = Policy(iterations=10, deadline_s=600)
    made = Bench(model, policy=policy, world=World(memory_run(policy, kind=kind)))
    made.around = around | ({} if gate is None else {"admission": gate})
    return made


def words(gate: Gate) -> list[str]:
    return [str(entry[0]) for entry in gate.seen]


async def test_a_call_is_made_inside_a_permit_and_the_permit_is_given_back() -> None:
    gate = Gate()

    async def look(request: ModelRequest, on_text: OnText | None) -> ModelStep:
        assert gate.inside
        return called(("look", {}))

    with ScriptedModel([look, said("ok")]) as model:
        assert (await bench(model, gate).advance()).text == "ok"
    assert words(gate) == ["enter", "leave"] * 2


async def test_without_a_permit_nothing_is_asked_and_the_run_waits_without_a_slot() -> None:
    gate = Gate([FULL])
    with ScriptedModel([]) as model:
        made = bench(model, gate)
        assert await made.advance() == Outcome(state=RunState.WAITING)
    assert made.run.state is RunState.WAITING
    assert made.run.paused is not None
    assert made.run.paused.model_dump() == {"why": WaitReason.PERMIT, "detail": "default", "wait_s": 7, "failures": 0}
    assert made.world.waits == []


async def test_the_model_that_admission_names_is_asked() -> None:
    with ScriptedModel([said("ok")]) as model:
        await bench(model, Gate(["spare"])).advance()
    assert model.requests[0].model == "spare"


async def test_failures_before_a_pause_count_after_it() -> None:
    down = ModelUnavailable("down")
    gate = Gate(["default", FULL, "default", FULL, *["default"] * 9])
    with ScriptedModel([down] * 5) as model:
        outcome, pauses = await bench(model, gate).through_pauses()
    assert outcome.exit_reason is ExitReason.MODEL_ERROR
    assert "5 calls in a row" in (outcome.error or "")
    assert [(pause.why, pause.failures) for pause in pauses] == [
        (WaitReason.PERMIT, 1), (WaitReason.BACKOFF, 2), (WaitReason.PERMIT, 2), (WaitReason.BACKOFF, 3),
        (WaitReason.BACKOFF, 4),
    ]  # fmt: skip


async def test_a_pause_the_provider_asked_for_is_no_failure_and_is_told_before_the_permit_is_left() -> None:
    limited = RateLimited("slow", retry_after=timedelta(seconds=3))
    gate = Gate(["default", Wait(WaitReason.RATE, 3, 5)] * 8)
    with ScriptedModel([*[limited] * 8, said("ok")]) as model:
        outcome, pauses = await bench(model, gate).through_pauses()
    assert outcome.text == "ok"
    assert [(pause.why, pause.failures, pause.wait_s) for pause in pauses] == [(WaitReason.RATE, 0, 5)] * 8
    assert words(gate)[:5] == ["enter", "limited", "leave", "enter", "leave"]
    assert gate.seen[1] == ("limited", "default", timedelta(seconds=3))


async def test_refusals_that_name_no_wait_are_failures() -> None:
    gate = Gate(["default", Wait(WaitReason.RATE, 3, 5)] * 4)
    with ScriptedModel([RateLimited("quota")] * 5) as model:
        outcome, pauses = await bench(model, gate).through_pauses()
    assert outcome.exit_reason is ExitReason.MODEL_ERROR
    assert [pause.failures for pause in pauses] == [1, 2, 3, 4]


async def test_a_refusal_may_be_answered_by_a_fallback_at_once() -> None:
    gate = Gate(["default", "spare"])
    with ScriptedModel([RateLimited("slow", retry_after=timedelta(seconds=9)), said("ok")]) as model:
        assert (await bench(model, gate).advance()).text == "ok"
    assert [request.model for request in model.requests] == ["default", "spare"]


async def test_a_refusal_of_a_fallback_pauses_the_fallback() -> None:
    limited = RateLimited("slow", retry_after=timedelta(seconds=3), model="spare")
    gate = Gate()
    with ScriptedModel([limited]) as model:
        made = bench(model, gate)
        await made.advance()
    assert gate.seen[1] == ("limited", "spare", timedelta(seconds=3))
    assert made.run.paused is not None
    assert (made.run.paused.why, made.run.paused.detail) == (WaitReason.RATE, "spare")
    assert 3 < made.run.paused.wait_s <= 4


@pytest.mark.parametrize("wait", [601.0, 3600.0])
async def test_a_wait_that_ends_after_the_deadline_ends_the_run_at_once(wait: float) -> None:
    with ScriptedModel([]) as model:
        outcome = await bench(model, Gate([Wait(WaitReason.RATE, wait, wait + 5)])).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.MODEL_ERROR)
    assert f"asks to wait {wait:.0f} s, but the run's deadline is in 600 s" in (outcome.error or "")


async def test_watchers_drop_the_text_of_a_call_that_is_given_up_for_a_pause() -> None:
    async def breaks(request: ModelRequest, on_text: OnText | None) -> ModelStep:
        assert on_text is not None
        await on_text("Half a ")
        await eventually(lambda: made.run.events)
        raise RateLimited("slow", retry_after=timedelta(seconds=3))

    gate = Gate(["default", Wait(WaitReason.RATE, 3, 5)])
    with ScriptedModel([breaks]) as model:
        made = bench(model, gate)
        assert (await made.advance()).state is RunState.WAITING
    assert [kind for _, kind, _ in made.run.events] == ["text", "step_restarted"]


@pytest.mark.parametrize("error", [ModelRefused("no"), ModelUnavailable("down"), KeyError("bug")])
async def test_the_permit_is_given_back_whatever_happens(error: Exception) -> None:
    gate = Gate()
    model = ScriptedModel([error, said("ok")])
    with suppress(KeyError):
        await bench(model, gate).advance()
    assert words(gate)[:2] == ["enter", "leave"]


async def falls_back(request: ModelRequest, on_text: OnText | None) -> ModelStep:
    assert request.before_fallback is not None
    await request.before_fallback("default", RateLimited("slow", retry_after=timedelta(seconds=3)), "spare")
    return said("from the spare one")


async def test_a_fallback_is_asked_inside_a_permit_of_its_own_and_the_refusal_is_told() -> None:
    gate = Gate()
    with ScriptedModel([falls_back]) as model:
        assert (await bench(model, gate).advance()).text == "from the spare one"
    assert words(gate) == ["enter", "limited", "fallback", "leave"]


async def test_a_fallback_without_a_permit_is_waited_for() -> None:
    gate = Gate(fallbacks={"spare": FULL})
    with ScriptedModel([falls_back]) as model:
        made = bench(model, gate)
        assert (await made.advance()).state is RunState.WAITING
    assert made.run.paused is not None
    assert (made.run.paused.why, made.run.paused.detail, made.run.paused.wait_s) == (WaitReason.PERMIT, "spare", 7)


async def test_a_fallback_that_cannot_be_asked_before_the_deadline_is_as_none() -> None:
    gate = Gate(["default", Wait(WaitReason.RATE, 3, 5)], {"spare": Wait(WaitReason.RATE, 9_000, 9_001)})
    with ScriptedModel([falls_back]) as model:
        made = bench(model, gate)
        assert (await made.advance()).state is RunState.WAITING
    assert made.run.paused is not None
    assert (made.run.paused.why, made.run.paused.detail, made.run.paused.wait_s) == (WaitReason.RATE, "default", 5)
    assert [entry for entry in gate.seen if entry[0] == "limited"] == [
        ("limited", "default", timedelta(seconds=3))
    ] * 2, "told twice, it is one pause"


def test_backoff_grows_and_parts_runs_that_failed_together() -> None:
    for failures, most in ((1, 1), (2, 2), (3, 4), (6, 30), (9, 30)):
        waits = [backoff(f"run-{n}", failures) for n in range(200)]
        assert most / 2 <= min(waits) <= max(waits) <= most
        assert len({round(wait, 3) for wait in waits}) > 100
    assert max(backoff(f"run-{n}", 1) for n in range(50)) <= SHORT_S


async def test_a_process_alone_pauses_its_model() -> None:
    alone, caller = AloneAdmission(), Caller("ann", "r", turn=False, tokens=1)
    assert await alone.enter(caller, "default") == "default"
    assert await alone.limited("default", timedelta(seconds=9)) == 9
    wait = await alone.enter(caller, "default")
    assert isinstance(wait, Wait)
    assert 8 < wait.least_s <= 9
    assert await alone.enter(caller, "other") == "other"
    await alone.leave(caller)


# -- the tokens of a day ---------------------------------------------------------------------------------------------


def day(tokens: int, **answers: int) -> dict[str, Any]:
    return {"budget": DayBudget(tokens, answers)}


async def test_every_call_sets_aside_what_it_may_use() -> None:
    with ScriptedModel([called(("look", {}), tokens=(3_000, 10)), said("ok")]) as model:
        made = bench(model, **day(100_000))
        assert (await made.advance()).text == "ok"
    first, second = made.run.reserved
    assert ANSWER_TOKENS < first < ANSWER_TOKENS + 200
    assert second > first
    with ScriptedModel([said("ok")]) as model:
        made = bench(model, **day(100_000, default=5_000))
        await made.advance()
    assert 5_000 < made.run.reserved[0] < 5_200


async def test_without_a_limit_nothing_is_set_aside() -> None:
    with ScriptedModel([said("ok")]) as model:
        made = bench(model, **day(0))
        await made.advance()
    assert made.run.reserved == []


async def test_a_turn_over_the_day_ends_at_once_and_the_user_reads_why() -> None:
    async def spends(request: ModelRequest, on_text: OnText | None) -> ModelStep:
        made.run.used_today = 49_800
        return called(("send", {"x": 1}), text="I begin.")

    with ScriptedModel([spends]) as model:
        made = bench(model, kind=RunKind.TURN, **day(50_000))
        outcome = await made.advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.TOKEN_BUDGET)
    told = "your tokens for today are used up: 49,800 of 50,000; there are new ones at 00:00 on 2030-01-02 (UTC)"
    assert outcome.error == told
    assert outcome.text.startswith("I begin.")
    assert outcome.text.endswith(f"I have to stop here: {told}.")
    assert "send did 1" in outcome.text, "what was finished is not lost"


@pytest.mark.parametrize("kind", [RunKind.CHILD, RunKind.REVIEW, RunKind.CRON, RunKind.CURATION])
async def test_other_runs_over_the_day_are_held_until_the_next(kind: RunKind) -> None:
    with ScriptedModel([]) as model:
        made = bench(model, kind=kind, **day(50_000))
        made.run.used_today = 49_800
        assert (await made.advance()).state is RunState.WAITING
    assert made.run.paused is not None
    assert (made.run.paused.why, made.run.paused.detail) == (WaitReason.BUDGET, "2030-01-02T00:00:00+00:00")
    assert 3600 <= made.run.paused.wait_s <= 3660, "not all users of a zone at once"


@pytest.mark.parametrize("kind", [RunKind.CHILD, RunKind.TURN])
async def test_what_others_only_set_aside_is_waited_for(kind: RunKind) -> None:
    with ScriptedModel([]) as model:
        made = bench(model, kind=kind, **day(50_000))
        made.run.used_today, made.run.reserved_today = 10_000, 39_500
        assert (await made.advance()).state is RunState.WAITING
    assert made.run.paused is not None
    assert made.run.paused.why is WaitReason.BUDGET
    assert 5 <= made.run.paused.wait_s <= 10


@pytest.mark.parametrize("kind", [RunKind.CHILD, RunKind.TURN])
async def test_a_call_larger_than_a_day_is_not_waited_for(kind: RunKind) -> None:
    with ScriptedModel([]) as model:
        outcome = await bench(model, kind=kind, **day(500)).advance()
    assert (outcome.state, outcome.exit_reason) == (RunState.FAILED, ExitReason.TOKEN_BUDGET)
    assert "more than the 500 that you may use in one day" in (outcome.error or "")
