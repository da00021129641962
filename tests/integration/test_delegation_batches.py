"""A batch from call to joined result: who runs when, what each child knows, and what the parent reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.errors import ModelRefused
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from hermes_tasks.testing.waiting import eventually
from tests.integration.composed import (
    USER,
    Process,
    Rule,
    goal_of,
    kind_of,
    process,
    results,
    tools,
)
from tests.integration.gate import Gate

pytestmark = pytest.mark.anyio

KEY = "sk-proj-" + "aB3" * 16


def delegating(*calls: Any, children: Rule, then: Callable[[ModelRequest], ModelStep] | None = None) -> Rule:
    """A front agent that makes these ``delegate_task`` calls in one answer, then says how many results it read."""

    def rule(request: ModelRequest) -> Any:
        if kind_of(request) is RunKind.CHILD:
            return children(request)
        if not results(request):
            return called(*(("delegate_task", call) for call in calls))
        return then(request) if then is not None else said(f"{len(results(request))} results")

    return rule


def tasks(*goals: str) -> dict[str, Any]:
    return {"tasks": [{"goal": goal} for goal in goals]}


def told(one: Process) -> list[list[dict[str, Any]]]:
    """The result lists that the last request of the turn shows, call by call."""
    return [json.loads(text)["results"] for text in results(one.model.of(RunKind.TURN)[-1])]


async def test_results_come_in_task_order_whatever_ends_first(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    goals = ("amber", "basalt", "cobalt")
    async with process(store_url, tmp_path, delegating(tasks(*goals), children=gate)) as one:
        run = await one.say("three words")
        for goal in reversed(goals):
            await eventually(lambda goal=goal: goal in gate.inside)
            gate.let_go(goal)
            await eventually(lambda goal=goal: goal not in gate.inside)
        assert (await one.ended(run)).state is RunState.COMPLETED
        [batch] = told(one)
        assert [(entry["task_index"], entry["goal"], entry["summary"]) for entry in batch] == [
            (place, goal, f"answer {goal}") for place, goal in enumerate(goals)
        ]
        assert {(entry["status"], entry["exit_reason"]) for entry in batch} == {("completed", "completed")}


async def test_a_fourth_child_queues_and_three_run_at_a_time(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    goals = ("pears", "plums", "figs", "kiwis", "limes")
    async with process(store_url, tmp_path, delegating(tasks(*goals), children=gate)) as one:
        run = await one.say("count fruit")
        await eventually(lambda: len(gate.inside) == 3)
        await one.reached(run, RunState.WAITING)
        assert sorted(gate.inside) == sorted(goals[:3])
        states = [record.state for record in await one.of_kind(RunKind.CHILD)]
        assert sorted(states) == [*[RunState.QUEUED] * 2, *[RunState.RUNNING] * 3]
        gate.let_go("plums")
        await eventually(lambda: "kiwis" in gate.inside)
        assert len(gate.inside) == 3
        for goal in goals:
            gate.let_go(goal)
        await one.ended(run)
        assert one.model.peak == 3
        [batch] = told(one)
        assert [entry["summary"] for entry in batch] == [f"answer {goal}" for goal in goals]


async def test_several_calls_in_one_answer_share_the_parents_limit(store_url: str, tmp_path: Path) -> None:
    gate = Gate()
    goals = [f"goal {letter}" for letter in "abcde"]
    calls = [{"goal": goal} for goal in goals]
    async with process(store_url, tmp_path, delegating(*calls, children=gate)) as one:
        run = await one.say("five calls")
        await eventually(lambda: len(gate.inside) == 3)
        await one.reached(run, RunState.WAITING)
        for goal in goals:
            gate.let_go(goal)
        record = await one.ended(run)
        assert record.result["text"] == "5 results"
        assert one.model.peak == 3
        request = one.model.of(RunKind.TURN)[-1]
        asked = request.messages[2]
        answers = request.messages[3:]
        assert [answer["tool_call_id"] for answer in answers] == [call["id"] for call in asked["tool_calls"]]
        assert [[entry["goal"] for entry in batch] for batch in told(one)] == [[goal] for goal in goals]


async def test_a_child_knows_its_goal_and_nothing_else(store_url: str, tmp_path: Path) -> None:
    call = {"goal": "find the port", "context": "the harbour of Leith"}
    async with process(store_url, tmp_path, delegating(call, children=lambda _: said("found"))) as one:
        await one.base.memory.write(USER, "user", await one.base.memory.document(USER, "user"), ("is called Ann",))
        await one.turn("my secret plan")
        [request] = one.model.of(RunKind.CHILD)
        system, opening = request.messages
        assert opening == {
            "role": "user", "content": "Your task: find the port\n\nWhat you must know:\nthe harbour of Leith"
        }  # fmt: skip
        assert "Ann" not in str(request.messages)
        assert "secret plan" not in str(request.messages)
        assert str(tmp_path / "workspaces" / USER / "sessions" / "s1") in system["content"]
        assert tools(request) >= {"terminal", "read_file", "write_file", "web_fetch"}
        assert tools(request).isdisjoint({"delegate_task", "memory"})


async def test_the_status_of_each_child_is_told_in_the_peers_words(store_url: str, tmp_path: Path) -> None:
    def child(request: ModelRequest) -> ModelStep | Exception:
        match goal_of(request):
            case "good":
                return said("all well", tokens=(11, 7))
            case "empty":
                return said("\n \n")
            case "reasoning":
                return said("<think>hmm</think>")
            case "refused":
                return ModelRefused("the provider refused")
            case "cut":
                return said("and then", finish="length")
            case "busy" if request.tools:
                return called(("read_file", {"path": f"f{len(request.messages)}"}))
            case "busy":
                return said("so far two files")
            case _:  # goes on asking, even when no tool is offered any more
                return called(("read_file", {"path": f"f{len(request.messages)}"}))

    goals = ("good", "empty", "reasoning", "refused", "cut", "busy", "stubborn")
    limits = {"policies": {"child": {"iterations": 3}}}
    async with process(store_url, tmp_path, delegating(tasks(*goals), children=child), **limits) as one:
        await one.turn("seven endings")
        [batch] = told(one)
        by_goal = {entry["goal"]: entry for entry in batch}
        shown = {goal: (entry["status"], entry["exit_reason"], entry["summary"]) for goal, entry in by_goal.items()}
        assert shown["good"] == ("completed", "completed", "all well")
        assert shown["empty"] == shown["reasoning"] == ("failed", "error", None)
        assert shown["refused"] == ("failed", "error", None)
        assert shown["cut"] == ("completed", "completed", "and then")
        assert shown["busy"] == ("failed", "max_iterations", "so far two files")
        assert shown["stubborn"][:2] == ("failed", "max_iterations")
        assert "error" not in by_goal["good"]
        assert by_goal["good"]["tokens"] == {"input": 11, "output": 7}
        assert "without text" in by_goal["empty"]["error"]
        assert "the provider refused" in by_goal["refused"]["error"]
        assert "output limit" in by_goal["cut"]["note"]
        assert "all 3 answers are used" in by_goal["busy"]["error"]
        assert "not run" in by_goal["stubborn"]["error"]
        assert [by_goal[goal]["api_calls"] for goal in ("good", "empty", "busy", "stubborn")] == [1, 2, 3, 3]
        trace = by_goal["busy"]["tool_trace"]
        assert [(call["tool"], call["status"]) for call in trace] == [("read_file", "error")] * 2
        assert trace[0]["args_bytes"] == len(json.dumps({"path": "f2"}))


async def test_a_long_answer_is_cut_with_a_pointer_that_reads_on(store_url: str, tmp_path: Path) -> None:
    lines = "\n".join(f"line {number} of the report" for number in range(400))

    def reading(request: ModelRequest) -> ModelStep:
        found = results(request)
        if len(found) == 1:
            entry = json.loads(found[0])["results"][0]
            offset = int(entry["summary"].rpartition("offset ")[2].split()[0])
            return called(("read_result", {"pointer": entry["summary_full_path"], "offset": offset}))
        return said("read")

    rule = delegating({"goal": "report"}, children=lambda _: said(lines), then=reading)
    async with process(store_url, tmp_path, rule, delegation={"max_summary_chars": 1000}) as one:
        assert (await one.turn("report")).result["text"] == "read"
        batch, more = results(one.model.of(RunKind.TURN)[-1])
        [entry] = json.loads(batch)["results"]
        assert entry["summary_truncated"] is True
        head, _, rest = entry["summary"].partition("\n[… ")
        note, _, tail = rest.partition(" …]\n")
        assert lines.startswith(head)
        assert lines.endswith(tail)
        assert len(head) + len(tail) <= 1000
        assert note.startswith(f"{len(lines) - len(head) - len(tail)} of {len(lines)} characters left out")
        assert (head + more).startswith(head + lines[len(head) : len(head) + 2000]), "it goes on where the head ends"


async def test_secrets_in_a_childs_answer_do_not_reach_the_parent(store_url: str, tmp_path: Path) -> None:
    children: Rule = lambda request: said(f"the key is {KEY} " + "x" * (2000 if goal_of(request) == "long" else 0))  # noqa: E731
    rule = delegating(tasks("short", "long"), children=children)
    async with process(store_url, tmp_path, rule, delegation={"max_summary_chars": 500}) as one:
        await one.turn("find the key")
        assert "the key is" in str(one.model.of(RunKind.TURN)[-1].messages)
        assert KEY not in str(one.model.of(RunKind.TURN)[-1].messages)
        spilled = [await one.on("HVALS", f"spill:{record.id}") for record in await one.of_kind(RunKind.CHILD)]
        assert [len(texts) for texts in spilled] == [0, 1]
        assert KEY not in str(spilled)


async def test_watchers_see_the_batch_from_start_to_join(store_url: str, tmp_path: Path) -> None:
    def child(request: ModelRequest) -> ModelStep:
        return said("done") if results(request) else called(("read_file", {"path": "a.txt"}))

    async with process(store_url, tmp_path, delegating(tasks("one", "two"), children=child)) as one:
        await one.turn("watch")
        events = await one.events()
        kinds = [kind for kind, _ in events]
        for kind, count in (
            (EventType.BATCH_STARTED, 1), (EventType.CHILD_STARTED, 2), (EventType.CHILD_TOOL, 2),
            (EventType.CHILD_ENDED, 2), (EventType.BATCH_JOINED, 1),
        ):  # fmt: skip
            assert kinds.count(kind) == count, kind
        [texts] = [data["text"] for kind, data in events if kind == EventType.TEXT]
        assert texts == "1 results", "a child's words are not part of the conversation"
        started = next(data for kind, data in events if kind == EventType.BATCH_STARTED)
        assert [(child["index"], child["goal"]) for child in started["children"]] == [(0, "one"), (1, "two")]
