"""One turn as a person sees it while it is at work, made from its events alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from hermes_tasks.cli.printing import clean, one_line
from hermes_tasks.client import Event, LiveText
from hermes_tasks.contracts.events import EventType

_ENDED: Final = {"completed": ("✓", "green"), "queued": ("·", "dim"), "running": ("▸", "yellow")}
_GOAL_CHARS: Final = 60
#: Lines of the terminal that are left for the prompt and what surrounds the text.
_MARGIN: Final = 3


@dataclass(slots=True)
class Child:
    """A line of the view: one child of the turn."""

    goal: str
    state: str = "queued"
    tool: str = ""
    began: float | None = None
    took: float | None = None

    def line(self, now: float) -> Text:
        """``▸ goal   running, web_extract, 12 s``."""
        sign, style = _ENDED.get(self.state, ("✗", "red"))
        seconds = self.took if self.took is not None else (now - self.began if self.began is not None else None)
        words = [self.state, *([self.tool] if self.tool and self.took is None else [])]
        words += [f"{seconds:.0f} s"] if seconds is not None else []
        return (
            Text(f"  {sign} ", style=style)
            .append(one_line(self.goal, _GOAL_CHARS))
            .append(f"  {', '.join(words)}", "dim")
        )


class TurnView:
    """The view of one turn.

    Args:
        run: the turn's run; what belongs to other turns of the session is passed over.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.live = LiveText(run)
        self.children: dict[str, Child] = {}
        self.tool = ""
        self.begun = False
        self.notices: list[str] = []
        self.end: Mapping[str, Any] | None = None

    def feed(self, event: Event, now: float) -> None:
        """Take one event.

        Args:
            now: seconds on a clock that never goes back.
        """
        data = event.data
        self.live.feed(event.type, data)
        if event.type == EventType.RESYNC:
            self._resync(data.get("open") or {}, now)
        elif event.type == EventType.NOTICE:
            self.notices.append(str(data.get("text", "")))
        elif data.get("run") in self.children:
            self._child(event, self.children[data["run"]], now)
        elif data.get("run") == self.run:
            self.begun = True
            self._own(event)

    def _own(self, event: Event) -> None:
        match event.type:
            case EventType.TOOL_STARTED:
                self.tool = str(event.data["name"])
            case EventType.TOOL_ENDED:
                self.tool = ""
            case EventType.BATCH_STARTED:
                for child in event.data["children"]:
                    self.children[child["run"]] = Child(str(child.get("goal", "")))
            case EventType.TURN_ENDED:
                self.end = event.data

    def _child(self, event: Event, child: Child, now: float) -> None:
        match event.type:
            case EventType.CHILD_STARTED:
                child.state, child.tool = "running", ""
                child.began = now if child.began is None else child.began
            case EventType.CHILD_TOOL:
                child.tool = str(event.data["name"])
            case EventType.CHILD_ENDED:
                child.state = str(event.data["status"])
                child.took = now - child.began if child.began is not None else None

    def _resync(self, opened: Mapping[str, Any], now: float) -> None:
        if opened.get("run") != self.run:
            return
        self.begun = True
        for found in opened.get("children") or []:
            child = self.children.setdefault(found["run"], Child(str(found.get("goal", ""))))
            child.state = str(found["state"])
            if child.state == "running" and child.began is None:
                child.began = now

    def status(self) -> str:
        """What is going on, in a few words; "" when the text says it."""
        if not self.begun:
            return "waits for the turn before it"
        if any(child.took is None and child.state in ("queued", "running") for child in self.children.values()):
            return "children at work"
        if self.tool:
            return self.tool
        return "" if self.live.text else "thinking"

    def frame(self, now: float) -> Frame:
        """What to draw now."""
        return Frame(self, now)

    def child_lines(self, now: float) -> list[Text]:
        """One line per child, in task order."""
        return [child.line(now) for child in self.children.values()]


@dataclass(slots=True)
class Frame:
    """The view at one moment: as much of the text's end as fits above the children."""

    view: TurnView
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        below = self.view.child_lines(self.now)
        below += [Text(f"  {notice}", style="yellow") for notice in map(one_line, self.view.notices)]
        if status := self.view.status():
            below.append(Text(f"  {status} …", style="dim"))
        text = clean(self.view.live.text)
        lines = list(Text(text).wrap(console, options.max_width)) if text else []
        room = max(1, options.size.height - len(below) - _MARGIN)
        yield Group(*lines[-room:], *below)
