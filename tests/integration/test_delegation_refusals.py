"""What a ``delegate_task`` call may not do: told to the model, with nothing started and nothing guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from tests.integration.composed import Process, goal_of, kind_of, process, results

pytestmark = pytest.mark.anyio

PORTS_AND_USERS = '[{"goal":"list ports"},{"goal":"list users"}]'


def once(arguments: Any):
    """A front agent that delegates once with these arguments, then says what it read."""

    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            return said(f"answer {goal_of(request)}")
        return said("read it") if results(request) else called(("delegate_task", arguments))

    return rule


async def children(one: Process) -> list[RunRecord]:
    return sorted(await one.of_kind(RunKind.CHILD), key=lambda record: record.index)


@pytest.mark.parametrize(
    ("arguments", "goals"),
    [
        ({"tasks": PORTS_AND_USERS}, ["list ports", "list users"]),
        ({"tasks": ['[{"goal":"list ports"}]']}, ["list ports"]),
        ({"tasks": [{"goal": " list ports "}]}, ["list ports"]),
        ({"goal": "list ports", "tasks": []}, ["list ports"]),
        ({"goal": "list ports", "tasks": ""}, ["list ports"]),
        ({"goal": "ignored", "tasks": [{"goal": "list ports", "extra": 1}]}, ["list ports"]),
    ],
)
async def test_what_is_unmistakable_is_run(
    store_url: str, tmp_path: Path, arguments: dict[str, Any], goals: list[str]
) -> None:
    async with process(store_url, tmp_path, once(arguments)) as one:
        assert (await one.turn("go")).state is RunState.COMPLETED
        assert [record.spec["goal"] for record in await children(one)] == goals
        [result] = results(one.model.of(RunKind.TURN)[-1])
        assert [entry["summary"] for entry in json.loads(result)["results"]] == [f"answer {goal}" for goal in goals]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tasks": ["list ports", "list users"]}, "task 0 is text"),
        ({"tasks": '[{"goal": '}, "not valid JSON"),
        ({"tasks": [{"goal": "list ports"}, {"goal": " "}]}, "task 1 has no goal"),
        ({"tasks": [{"goal": "list ports"}, {"goal": None}]}, "task 1 has no goal"),
        ({"tasks": [{"goal": "list ports", "context": ["a"]}]}, "context of task 0 is a list"),
        ({"tasks": {"goal": "list ports"}}, "tasks is an object"),
        ({"tasks": 3}, "tasks is a number"),
        ({}, "give a goal"),
        ({"tasks": []}, "give a goal"),
        ({"goal": "  "}, "give a goal"),
        ({"tasks": [{"goal": f"count {number}"} for number in range(13)]}, "13 tasks in one call, 12 are allowed"),
        ('{"tasks": [', "not JSON"),
    ],
)
async def test_what_is_not_is_refused_with_its_reason_and_starts_nothing(
    store_url: str, tmp_path: Path, arguments: Any, says: str
) -> None:
    async with process(store_url, tmp_path, once(arguments)) as one:
        record = await one.turn("go")
        assert (record.state, record.result["text"]) == (RunState.COMPLETED, "read it"), "the turn goes on"
        [result] = results(one.model.of(RunKind.TURN)[-1])
        assert says in result
        assert "Traceback" not in result
        assert await children(one) == []
        kinds = [kind for kind, _ in await one.events()]
        assert EventType.BATCH_STARTED not in kinds
        status = [data["status"] for kind, data in await one.events() if kind == EventType.TOOL_ENDED]
        assert status in (["error"], []), "a call that cannot be read never begins"


async def test_the_limit_is_the_configured_one(store_url: str, tmp_path: Path) -> None:
    arguments = {"tasks": [{"goal": f"count {number}"} for number in range(3)]}
    async with process(store_url, tmp_path, once(arguments), delegation={"max_tasks": 2}) as one:
        await one.turn("go")
        [result] = results(one.model.of(RunKind.TURN)[-1])
        assert "3 tasks in one call, 2 are allowed; nothing was started" in result
        assert await children(one) == []
        [schema] = [tool for tool in one.model.requests[0].tools if tool["name"] == "delegate_task"]
        assert "up to 2 in a call" in schema["description"]


async def test_one_bad_call_does_not_spoil_its_neighbours(store_url: str, tmp_path: Path) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            return said(f"answer {goal_of(request)}")
        if results(request):
            return said("read it")
        return called(("delegate_task", {"goal": "one"}), ("delegate_task", {}), ("delegate_task", {"goal": "two"}))

    async with process(store_url, tmp_path, rule) as one:
        await one.turn("go")
        first, bad, second = results(one.model.of(RunKind.TURN)[-1])
        assert "give a goal" in bad
        summaries = [json.loads(text)["results"][0]["summary"] for text in (first, second)]
        assert summaries == ["answer one", "answer two"]


async def test_a_child_that_delegates_is_refused_and_goes_on(store_url: str, tmp_path: Path) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            return said(results(request)[0]) if results(request) else called(("delegate_task", {"goal": "grandchild"}))
        return said("read it") if results(request) else called(("delegate_task", {"goal": "child"}))

    async with process(store_url, tmp_path, rule) as one:
        assert (await one.turn("go")).state is RunState.COMPLETED
        [child] = await children(one)
        assert (child.depth, child.spec["goal"], child.state) == (1, "child", RunState.COMPLETED)
        assert "delegate_task is not available to this run" in child.result["text"]
        assert "delegation depth reached" in child.result["text"]
        [batch] = results(one.model.of(RunKind.TURN)[-1])
        [entry] = json.loads(batch)["results"]
        assert [(call["tool"], call["status"]) for call in entry["tool_trace"]] == [("delegate_task", "error")]


async def test_a_child_has_no_memory_whatever_it_asks_for(store_url: str, tmp_path: Path) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        if kind_of(request) is RunKind.CHILD:
            write = ("memory", {"target": "user", "action": "add", "content": "likes tea"})
            return said("could not") if results(request) else called(write)
        return said("read it") if results(request) else called(("delegate_task", {"goal": "child"}))

    async with process(store_url, tmp_path, rule) as one:
        await one.turn("go")
        assert "memory is not available" in results(one.model.of(RunKind.CHILD)[-1])[0]
        assert (await one.base.memory.document("ann", "user")).entries == ()
