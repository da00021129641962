"""Tools: what the model may call. Three kinds, by where their effect lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import StartedStep, ToolStep


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What the model reads. ``error`` marks a failed call; the text then says what to do instead."""

    content: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and where a tool works. Never taken from the process, always handed in.

    Attributes:
        run: the record of the calling run (user, session, depth, policy).
        workspace: the directory of the run's session or job; tools that touch files stay inside it.
        seconds_left: until the run's deadline when the call began.
        context_left: tokens that still fit into the run's context; None = not known.
        turn_failures: a counter tools may use to notice a loop of failing calls within this run.
    """

    run: RunRecord
    workspace: Path
    seconds_left: float
    context_left: int | None = None
    turn_failures: dict[str, int] = field(default_factory=dict)


class Slot(Protocol):
    """The right to append exactly one step, for tools that write effect and step in one script.

    ``guard`` is opaque to the tool: it hands it to a store call together with the step.
    """

    guard: Any

    def step(self, output: ToolOutput) -> ToolStep:
        """The step that records ``output`` for this call."""
        ...

    def started(self, batch: str) -> StartedStep:
        """The step that says this call waits for the children of ``batch``."""
        ...

    def written(self) -> None:
        """Tell the journal that the script wrote the step made last; it is then part of ``Journal.steps``."""
        ...


@runtime_checkable
class Tool(Protocol):
    """A tool whose effect is outside the store, or which has none.

    ``started`` is stored before :meth:`run`; started and unfinished after a crash means
    "interrupted, effect unknown", unless ``idempotent``: then it is simply run again.
    """

    name: str
    toolset: str
    idempotent: bool

    def schema(self) -> Mapping[str, Any]:
        """The function's JSON schema: ``{name, description, parameters}``; built from the live limits."""
        ...

    async def run(self, context: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Do it. Bad arguments return an error output; exceptions are bugs and are reported as such."""
        ...


@runtime_checkable
class StoredTool(Protocol):
    """A tool whose effect is in the store: effect and step are written by one script (memory, cronjob …)."""

    name: str
    toolset: str

    def schema(self) -> Mapping[str, Any]:
        """See :class:`Tool`."""
        ...

    async def run_stored(self, context: ToolContext, args: Mapping[str, Any], slot: Slot) -> ToolOutput | None:
        """Write effect and step through ``slot``; return an output instead when nothing was written (an error)."""
        ...


@runtime_checkable
class DeferredTool(Protocol):
    """A tool that starts runs and whose result comes when they are joined (delegate_task)."""

    name: str
    toolset: str

    def schema(self) -> Mapping[str, Any]:
        """See :class:`Tool`."""
        ...

    async def start(self, context: ToolContext, args: Mapping[str, Any], call: int, slot: Slot) -> ToolOutput | None:
        """Create the batch and its ``started`` step in one script; an output instead means nothing was started."""
        ...

    async def collect(self, context: ToolContext, batch: str) -> ToolOutput | None:
        """The joined result, or None while children are still at work."""
        ...


AnyTool = Tool | StoredTool | DeferredTool


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """What a run tells its watchers while it works; turned into session events by its strategy.

    ``text`` is a piece of the answer that is being said, ``answer`` the whole of one that was stored.
    """

    kind: Literal["text", "answer", "tool_started", "tool_ended", "step_restarted"]
    step: int
    text: str = ""
    name: str = ""
    status: str = ""
