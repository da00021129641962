"""Every conversation, with a crash at every write: same end, at most one answer paid twice, no effect twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hermes_tasks.agent.transcript import INTERRUPTED, messages
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.steps import ModelStep, SummaryStep, ToolStep
from hermes_tasks.testing.journal import Died, Faults, MemoryJournal
from hermes_tasks.testing.model import AnyReply, Reply, ScriptedModel, called, said
from tests.unit.agent.doubles import Bench

pytestmark = pytest.mark.anyio

LONG = "long " * 1_000
CONVERSATIONS: dict[str, tuple[list[AnyReply], dict[str, Any], tuple[RunState, ExitReason]]] = {
    "text only": ([said("hello")], {}, (RunState.COMPLETED, ExitReason.COMPLETED)),
    "one tool": ([called(("send", {"x": 1})), said("sent")], {}, (RunState.COMPLETED, ExitReason.COMPLETED)),
    "all kinds side by side": (
        [
            called(
                ("send", {"x": 1}),
                ("look", {"x": 2}),
                ("note", {"x": 3}),
                ("send", {"x": 4}),
                ("search_the_moon", {}),
                ("note", '{"x": 1'),
                ("note", {"x": 5}),
            ),
            called(("note", {}), ("send", {"x": 6})),
            said("all done"),
        ],
        {},
        (RunState.COMPLETED, ExitReason.COMPLETED),
    ),
    "delegation beside tools": (
        [
            called(("delegate_task", {"x": 1}), ("send", {"x": 2}), ("delegate_task", {"x": 3}), ("delegate_task", {})),
            called(("delegate_task", {"x": 4})),
            said("joined"),
        ],
        {},
        (RunState.COMPLETED, ExitReason.COMPLETED),
    ),
    "an empty answer": (
        [called(("look", {})), said(" \n"), said("now")],
        {},
        (RunState.COMPLETED, ExitReason.COMPLETED),
    ),
    "empty twice": ([said(""), said("")], {}, (RunState.FAILED, ExitReason.EMPTY_ANSWER)),
    "out of answers": (
        [called(("send", {"x": 1})), called(("send", {"x": 2})), said("as far as I came")],
        {"policy": Policy(iterations=3, deadline_s=600)},
        (RunState.EXHAUSTED, ExitReason.MAX_ITERATIONS),
    ),
    "out of answers, stray call": (
        [called(("send", {"x": 1})), called(("send", {"x": 2}))],
        {"policy": Policy(iterations=2, deadline_s=600)},
        (RunState.FAILED, ExitReason.MAX_ITERATIONS),
    ),
    "condensed": (
        [
            called(("look", {"x": LONG}), ("look", {"x": LONG}), ("send", {"x": 1})),
            called(("note", {"x": LONG[:2_500]})),
            said("a summary of the work"),
            called(("look", {"x": 1})),
            said("done"),
        ],
        {"window": 8_200},
        (RunState.COMPLETED, ExitReason.COMPLETED),
    ),
}
POINTS = ("die_after", "die_before")


def bench_of(name: str) -> tuple[Bench, ScriptedModel]:
    replies, options, _ = CONVERSATIONS[name]
    model = ScriptedModel(replies, window=options.get("window", 1_000_000))
    bench = Bench(model, policy=options.get("policy", Policy(iterations=10, deadline_s=600)))
    return bench, model


async def to_the_end(bench: Bench, model: ScriptedModel, point: str = "", write: int = 0) -> Outcome:
    """Claim after claim until the run is over, with one death at that write of the whole run."""
    for _ in range(12):
        ahead = write - len(bench.run.stored)
        faults = Faults(**{point: ahead}) if ahead > 0 else None
        model.resume(sum(isinstance(step, ModelStep | SummaryStep) for step in bench.run.steps))
        try:
            outcome = await bench.advance(MemoryJournal(bench.run, faults))
        except Died:
            write = 0
            continue
        if outcome.state is not RunState.WAITING:
            return outcome
        bench.run.pending.clear()
    raise AssertionError("the run does not end")


def shape(bench: Bench) -> list[tuple[Any, ...]]:
    told = messages(bench.plan, bench.run.steps)
    return [
        (message["role"], message.get("tool_call_id"), [call["id"] for call in message.get("tool_calls") or ()])
        for message in told
    ]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_straight(name: str) -> None:
    bench, model = bench_of(name)
    outcome = await to_the_end(bench, model)
    assert (outcome.state, outcome.exit_reason) == CONVERSATIONS[name][2]
    model.check()
    assert max(Counter(bench.world.effects).values(), default=1) == 1


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_crash_at_every_write(name: str, point: str) -> None:
    straight, asked = bench_of(name)
    end = await to_the_end(straight, asked)
    writes = len(straight.run.stored)
    assert writes > 0
    for write in range(1, writes + 1):
        bench, model = bench_of(name)
        outcome = await to_the_end(bench, model, point, write)
        where = f"{name}, {point} write {write}"
        assert (outcome.state, outcome.exit_reason) == (end.state, end.exit_reason), where
        assert shape(bench) == shape(straight), where
        assert len(model.requests) <= len(asked.requests) + 1, where
        if point == "die_after":
            assert len(model.requests) == len(asked.requests), f"{where}: a stored answer was paid twice"
        effects, wanted = Counter(bench.world.effects), Counter(straight.world.effects)
        missing = wanted - effects
        assert not effects - wanted, f"{where}: an effect took place twice"
        assert all(effect.startswith("send") for effect in missing), f"{where}: an effect in the store was lost"
        unknown = [step for step in bench.run.steps if isinstance(step, ToolStep) and step.status == "unknown"]
        assert len(missing) <= len(unknown), f"{where}: an effect is missing and the model was not told"
        model.check()


async def test_an_effect_without_a_stored_result_is_called_unknown() -> None:
    model = ScriptedModel([called(("send", {"x": 1}), ("look", {"x": 2})), said("checked")])
    bench = Bench(model)
    with pytest.raises(Died):  # writes: answer, started, first result
        await bench.advance(MemoryJournal(bench.run, Faults(die_before=3)))
    await bench.advance()
    contents = [message["content"] for message in messages(bench.plan, bench.run.steps) if message["role"] == "tool"]
    assert contents == [INTERRUPTED, "look did 2"]
    assert bench.world.effects == ["send 1"]


async def test_two_deaths_in_one_run() -> None:
    model = ScriptedModel([called(("send", {"x": 1})), called(("send", {"x": 2})), said("done")])
    bench = Bench(model)
    for write in (2, 2):
        with pytest.raises(Died):
            await bench.advance(MemoryJournal(bench.run, Faults(die_after=write)))
        model.resume(sum(isinstance(step, ModelStep) for step in bench.run.steps))
    outcome = await bench.advance()
    assert outcome.text == "done"
    assert bench.world.effects.count("send 2") == 1


async def test_a_takeover_tells_watchers_to_drop_what_may_have_streamed() -> None:
    model = ScriptedModel([Reply(said("one two"), ("one ", "two"))])
    bench = Bench(model)
    with pytest.raises(Died):
        await bench.advance(MemoryJournal(bench.run, Faults(die_before=1)))
    model.resume(0)
    await bench.advance()
    kinds = [(attempt, kind, data["step"]) for attempt, kind, data in bench.run.events]
    restart = kinds.index((2, "step_restarted", 0))
    assert all(kind == (1, "text", 0) for kind in kinds[:restart])
    assert restart > 0
    assert [data["text"] for attempt, kind, data in bench.run.events if attempt == 2 and kind == "text"] != []


async def test_no_restart_is_told_after_waiting_for_children() -> None:
    model = ScriptedModel([called(("delegate_task", {"x": 1})), said("joined")])
    bench = Bench(model)
    await to_the_end(bench, model)
    assert bench.run.claims == 2
    assert "step_restarted" not in [kind for _, kind, _ in bench.run.events]
