"""Tools whose effects can be counted, a registry of them, and one call that brings a run to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_tasks.agent.loop import Notes, Surroundings, advance
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.models import ModelPort
from hermes_tasks.contracts.runs import Outcome, Pause, Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import AnyTool, ProgressNote, Slot, ToolContext, ToolOutput
from hermes_tasks.testing.journal import MemoryJournal, MemoryRun, memory_run


@dataclass
class World:
    """Where effects go; it outlives processes."""

    run: MemoryRun
    effects: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


class _Named:
    toolset = "test"

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world

    def schema(self) -> Mapping[str, Any]:
        return {"name": self.name, "description": self.name, "parameters": {"type": "object"}}


class Plain(_Named):
    """Records its arguments as an effect; ``act`` may do more."""

    def __init__(
        self,
        name: str,
        world: World,
        *,
        idempotent: bool = False,
        act: Callable[[Mapping[str, Any]], Awaitable[ToolOutput]] | None = None,
    ) -> None:
        super().__init__(name, world)
        self.idempotent = idempotent
        self._act = act

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        if not self.idempotent:
            self.world.effects.append(f"{self.name} {args.get('x')}")
        if self._act is not None:
            return await self._act(args)
        await asyncio.sleep(0)
        return ToolOutput(f"{self.name} did {args.get('x')}")


class Stored(_Named):
    async def run_stored(self, context: ToolContext, args: Mapping[str, Any], slot: Slot) -> ToolOutput | None:
        if "x" not in args:
            return ToolOutput("x is required", error=True)
        await asyncio.sleep(0)
        step = slot.step(ToolOutput(f"noted {args['x']}"))
        slot.guard.commit(step, lambda: self.world.effects.append(f"{self.name} {args['x']}"))
        slot.written()
        return None


class Delegate(_Named):
    async def start(self, context: ToolContext, args: Mapping[str, Any], call: int, slot: Slot) -> ToolOutput | None:
        if "x" not in args:
            return ToolOutput("x is required", error=True)
        batch = f"batch-{args['x']}"

        def effect() -> None:
            self.world.effects.append(f"{self.name} {args['x']}")
            self.world.run.pending.add(batch)

        slot.guard.commit(slot.started(batch), effect)
        slot.written()
        return None

    async def collect(self, context: ToolContext, batch: str) -> ToolOutput | None:
        return None if batch in self.world.run.pending else ToolOutput(f"children of {batch} are done")


@dataclass(frozen=True)
class Found:
    tool: AnyTool
    args: Mapping[str, Any]


class Tools:
    """A registry over a few tools, as strict as the real one where it matters to the loop."""

    def __init__(self, *tools: AnyTool) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def offered(self, policy: Policy) -> Sequence[Mapping[str, Any]]:
        return tuple(tool.schema() for tool in self._tools.values())

    def resolve(self, call: ToolCall, policy: Policy) -> Found | ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolOutput(f"no tool {call.name!r}; there are {', '.join(self._tools)}", error=True)
        try:
            args = json.loads(call.arguments or "{}")
        except ValueError:
            args = None
        if not isinstance(args, dict):
            return ToolOutput(f"arguments of {call.name} are not a JSON object", error=True)
        return Found(tool, args)


def usual_tools(world: World) -> Tools:
    return Tools(
        Plain("look", world, idempotent=True),
        Plain("send", world),
        Stored("note", world),
        Delegate("delegate_task", world),
    )


def text_events(note: ProgressNote) -> Sequence[Event]:
    return [(note.kind, {"step": note.step, "text": note.text, "name": note.name, "status": note.status})]


def plan_of(policy: Policy, tools: Tools | None = None, **changes: Any) -> Plan:
    plan = {
        "system": "You work.",
        "messages": ({"role": "user", "content": "Do it."},),
        "policy": policy,
        "model": "default",
        "tools": () if tools is None else tuple(tools.offered(policy)),
    }
    return Plan(**{**plan, **changes})


@dataclass
class Bench:
    """Everything one run needs, with defaults."""

    model: ModelPort
    policy: Policy = field(default_factory=lambda: Policy(iterations=10, deadline_s=600))
    world: World = None  # type: ignore[assignment]
    tools: Tools = None  # type: ignore[assignment]
    changes: dict[str, Any] = field(default_factory=dict)
    around: dict[str, Any] = field(default_factory=dict)
    notes: Notes = text_events

    def __post_init__(self) -> None:
        self.world = self.world or World(memory_run(self.policy))
        self.tools = self.tools or usual_tools(self.world)

    @property
    def run(self) -> MemoryRun:
        return self.world.run

    @property
    def plan(self) -> Plan:
        return plan_of(self.policy, self.tools, **self.changes)

    async def advance(self, journal: MemoryJournal | None = None) -> Outcome:
        journal = journal or MemoryJournal(self.run)
        context = ToolContext(self.run.record, Path("unused"), 600.0)
        around = Surroundings(**{"sleep": self.world.sleep, **self.around})
        return await advance(journal, self.plan, self.model, self.tools, context, self.notes, around)

    async def through_pauses(self) -> tuple[Outcome, list[Pause]]:
        """The outcome, each pause over as soon as it is stored; and the pauses."""
        pauses: list[Pause] = []
        while True:
            outcome = await self.advance()
            if outcome.state is not RunState.WAITING:
                return outcome, pauses
            assert self.run.paused is not None
            pauses.append(self.run.paused)
            self.run.paused = None
