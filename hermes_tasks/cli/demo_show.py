"""How the demo looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hermes_tasks.cli.demo_facts import Facts
from hermes_tasks.contracts.clock import from_ms
from hermes_tasks.contracts.events import EventType


class LiveTurn:
    """One turn while it is at work: the text so far, and a line per child."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._children: dict[str, list[str]] = {}

    def take(self, kind: str, data: dict[str, Any]) -> None:
        """Follow one event."""
        match kind:
            case EventType.BATCH_STARTED:
                for child in data["children"]:
                    self._children[child["run"]] = [str(child["goal"]), "queued"]
            case EventType.CHILD_STARTED if data["run"] in self._children:
                self._children[data["run"]][1] = "running"
            case EventType.CHILD_TOOL if data["run"] in self._children:
                self._children[data["run"]][1] = f"running · {data['name']}"
            case EventType.CHILD_ENDED if data["run"] in self._children:
                self._children[data["run"]][1] = str(data["status"])
            case _:
                return
        if self._live is not None:
            self._live.update(self._shown())

    def _shown(self) -> Group:
        styles = {"completed": "green", "queued": "dim"}
        lines = [
            Text(f"    ├─ {goal:<40.40} ", style="cyan").append(state, style=styles.get(state, "yellow"))
            for goal, state in self._children.values()
        ]
        return Group(*lines)


class Show:
    """Prints what happens; plain lines when the output is no terminal."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    def title(self, text: str, below: str) -> None:
        """The first lines."""
        self.console.print(Panel(below, title=text, title_align="left", expand=False))

    def say(self, text: str) -> None:
        """A remark."""
        self.console.print(f"[dim]- {text}[/dim]")

    def asks(self, user: str, text: str) -> None:
        """A user's message."""
        self.console.print(Text(f"{user:>6} > ", style="bold magenta").append(text, style="default"))

    def answers(self, text: str) -> None:
        """An answer."""
        self.console.print(Text(" agent < ", style="bold blue").append(text, style="default"))

    @contextmanager
    def live(self) -> Iterator[LiveTurn]:
        """A block that is redrawn while the turn is at work and stays as it was last."""
        if not self.console.is_terminal:
            yield LiveTurn(None)
            return
        with Live(console=self.console, refresh_per_second=8) as live:
            yield LiveTurn(live)

    def results(self, facts: Facts, addresses: Sequence[tuple[str, str]]) -> None:
        """What happened, with ids."""
        self.console.print(_children(facts))
        self.console.print(_channels(facts))
        for mail in facts.inbox:
            self.console.print(Text("inbox  ", style="bold").append(f"{mail['name']}: {mail['text'] or mail['error']}"))
        for what, where in addresses:
            self.console.print(Text(f"{what:<8}", style="bold").append(where, style="default"))

    def verdict(self, failures: Sequence[str], seconds: float) -> None:
        """The last line."""
        for failure in failures:
            self.console.print(f"[bold red]does not hold:[/bold red] {failure}")
        if not failures:
            self.console.print(f"[bold green]every check holds[/bold green] ({seconds:.0f} s)")


def _children(facts: Facts) -> Table:
    table = Table(title="One batch: three children at the same time, outside the front", title_justify="left")
    for column in ("run", "goal", "process", "started", "ended", "state"):
        table.add_column(column, overflow="fold")
    for run in facts.children:
        table.add_row(
            run.id, str(run.spec.get("goal", "")), run.worker, _clock(run.started), _clock(run.ended), run.state
        )
    table.caption = f"the turn began in process {facts.front_pid} (the front)"
    return table


def _clock(moment_ms: int) -> str:
    return f"{from_ms(moment_ms).astimezone(UTC):%H:%M:%S.%f}"[:-3] if moment_ms else "-"


def _channels(facts: Facts) -> Table:
    table = Table(title="Ordered channels", title_justify="left")
    for column in ("user", "session", "appended", "applied to memory"):
        table.add_column(column, overflow="fold")
    for user, session, appended, applied in facts.channels:
        table.add_row(user, session, str(appended), str(applied))
    return table
