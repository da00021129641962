"""Sub-agents of sub-agents: how deep, with which tools, and what is refused at execution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import called, said
from tests.integration.composed import Process, goal_of, kind_of, process, results, tools

pytestmark = pytest.mark.anyio

BLOCKED = ("delegate_task", "clarify", "memory", "send_message", "execute_code", "cronjob")
DEEP = {"delegation": {"max_spawn_depth": 2}}


def tree(call: dict[str, Any], inner: dict[str, Any]) -> Any:
    """The front agent makes ``call``; every child that can delegate, or tries to, makes ``inner``."""

    def rule(request: ModelRequest) -> ModelStep:
        read = results(request)
        if kind_of(request) is RunKind.CHILD:
            if not read and ("delegate_task" in tools(request) or goal_of(request).startswith("tries")):
                return called(("delegate_task", inner))
            return said(f"{goal_of(request)}: {read[-1] if read else 'alone'}")
        return said("read it") if read else called(("delegate_task", call))

    return rule


def told(one: Process) -> list[dict[str, Any]]:
    [text] = results(one.model.of(RunKind.TURN)[-1])
    found: list[dict[str, Any]] = json.loads(text)["results"]
    return found


def asked(one: Process, goal: str) -> ModelRequest:
    """The first request of the child with that goal."""
    return next(request for request in one.model.of(RunKind.CHILD) if goal_of(request) == goal)


async def test_by_default_an_orchestrator_runs_as_a_leaf(store_url: str, tmp_path: Path) -> None:
    """Acceptance test 2, first half, and field case D-10."""
    call = {"goal": "tries to delegate", "role": "orchestrator"}
    async with process(store_url, tmp_path, tree(call, {"goal": "grandchild"})) as one:
        assert (await one.turn("go")).state is RunState.COMPLETED
        assert tools(asked(one, "tries to delegate")).isdisjoint(BLOCKED)
        [entry] = told(one)
        assert entry["status"] == "completed"
        assert "delegation depth reached: this run is at depth 1, the limit is 1" in entry["summary"]
        assert [run.spec["goal"] for run in await one.of_kind(RunKind.CHILD)] == ["tries to delegate"]


async def test_a_deeper_limit_gives_an_orchestrator_its_tool_and_its_children_none(
    store_url: str, tmp_path: Path
) -> None:
    """Acceptance test 2, second half."""
    call = {"tasks": [{"goal": "boss", "role": "orchestrator"}, {"goal": "tries as a leaf"}]}
    inner = {"goal": "tries at depth two", "role": "orchestrator"}
    async with process(store_url, tmp_path, tree(call, inner), **DEEP) as one:
        assert (await one.turn("go")).state is RunState.COMPLETED
        assert "delegate_task" in tools(asked(one, "boss"))
        assert "at depth 1 of 2; your sub-agents cannot delegate" in str(asked(one, "boss").messages[0]["content"])
        assert "delegate_task" not in tools(asked(one, "tries at depth two"))
        boss, leaf = told(one)
        assert "delegation depth reached: this run is at depth 2, the limit is 2" in boss["summary"]
        assert "started as a leaf" in leaf["summary"]
        depths = {run.spec["goal"]: run.depth for run in await one.of_kind(RunKind.CHILD)}
        assert depths == {"boss": 1, "tries as a leaf": 1, "tries at depth two": 2}


async def test_orchestrators_can_be_switched_off(store_url: str, tmp_path: Path) -> None:
    settings = {"delegation": {"max_spawn_depth": 3, "orchestrators": False}}
    call = {"goal": "tries", "role": "orchestrator"}
    async with process(store_url, tmp_path, tree(call, {"goal": "grandchild"}), **settings) as one:
        await one.turn("go")
        assert len(await one.of_kind(RunKind.CHILD)) == 1


async def test_an_orchestrator_waits_also_when_it_asks_for_the_background(store_url: str, tmp_path: Path) -> None:
    """Only a session has a mailbox: whoever else delegates waits for the results."""
    inner = {"goal": "inner", "background": True}
    call = {"goal": "boss", "role": "orchestrator"}
    async with process(store_url, tmp_path, tree(call, inner), **DEEP) as one:
        await one.turn("go")
        [entry] = told(one)
        assert "inner: alone" in entry["summary"]


async def test_five_levels_run_through_a_window_of_one(store_url: str, tmp_path: Path) -> None:
    """A waiting orchestrator gives its place up, so a chain never starves itself."""

    def rule(request: ModelRequest) -> ModelStep:
        read = results(request)
        if read:
            return said(f"up from {read[-1][:40]}")
        if kind_of(request) is RunKind.TURN or "delegate_task" in tools(request):
            return called(("delegate_task", {"goal": "deeper", "role": "orchestrator"}))
        return said("the bottom")

    settings: dict[str, Any] = {"delegation": {"max_spawn_depth": 5}, "windows": {"child": 1}}
    async with process(store_url, tmp_path, rule, **settings) as one:
        record = await one.turn("go")
        assert record.state is RunState.COMPLETED
        assert sorted(run.depth for run in await one.of_kind(RunKind.CHILD)) == [1, 2, 3, 4, 5]
        assert record.below.calls == 9, "four orchestrators asked twice, the leaf once"


@pytest.mark.parametrize(
    ("wanted", "has", "dropped"),
    [
        (["file"], {"read_file", "write_file", "patch", "search_files", "read_result"}, ""),
        (["web", "memory"], {"web_fetch", "read_result"}, "memory"),
        (["memory", "delegation"], {"read_result"}, "memory, delegation"),
        ([], {"read_result"}, ""),
    ],
)
async def test_a_child_has_what_it_asked_for_and_its_parent_may_grant(
    store_url: str, tmp_path: Path, wanted: list[str], has: set[str], dropped: str
) -> None:
    """Field case D-10, second half."""
    call = {"goal": "work", "toolsets": wanted}
    async with process(store_url, tmp_path, tree(call, {})) as one:
        await one.turn("go")
        request = asked(one, "work")
        assert tools(request) - {"web_search"} == has
        opening = str(request.messages[1]["content"])
        assert ("may not grant" in opening) is bool(dropped)
        assert dropped in opening
        assert dropped in told(one)[0].get("note", "")


async def test_below_an_orchestrator_toolsets_only_shrink(store_url: str, tmp_path: Path) -> None:
    call = {"goal": "boss", "role": "orchestrator", "toolsets": ["file"]}
    inner = {"goal": "inner", "toolsets": ["file", "terminal"]}
    async with process(store_url, tmp_path, tree(call, inner), **DEEP) as one:
        await one.turn("go")
        assert tools(asked(one, "boss")) & {"terminal", "read_file", "delegate_task"} == {"read_file", "delegate_task"}
        assert tools(asked(one, "inner")) & {"terminal", "read_file", "delegate_task"} == {"read_file"}
        assert "may not grant them: terminal (of file)" in str(asked(one, "inner").messages[1]["content"])


@pytest.mark.parametrize("name", BLOCKED)
async def test_what_is_blocked_for_children_is_refused_when_it_is_called_anyway(
    store_url: str, tmp_path: Path, name: str
) -> None:
    def rule(request: ModelRequest) -> ModelStep:
        read = results(request)
        if kind_of(request) is RunKind.CHILD:
            return said(read[-1]) if read else called((name, {"action": "add", "goal": "x"}))
        return said("read it") if read else called(("delegate_task", {"goal": "calls it"}))

    async with process(store_url, tmp_path, rule) as one:
        await one.turn("go")
        [entry] = told(one)
        assert "not available" in entry["summary"] or "there is no tool" in entry["summary"]
        assert entry["tool_trace"][0]["status"] == "error"


async def test_a_role_nobody_knows_runs_as_a_leaf_and_says_so(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, tree({"goal": "work", "role": "captain"}, {}), **DEEP) as one:
        await one.turn("go")
        assert "role 'captain' is unknown" in told(one)[0]["note"]
