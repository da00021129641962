"""What a person sees of a turn while it is at work."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from hermes_tasks.cli.chat_view import TurnView
from hermes_tasks.client import Event

CHILDREN = [{"run": "k0", "index": 0, "goal": "tide\ntables"}, {"run": "k1", "index": 1, "goal": "harbour fees"}]


def view_of(*events: tuple[str, dict[str, Any]]) -> TurnView:
    view = TurnView("r")
    for second, (type, data) in enumerate(events):
        view.feed(Event(f"{second}-0", type, data), float(second))
    return view


def drawn(view: TurnView, now: float = 10, *, width: int = 80, height: int = 24) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, height=height, highlight=False).print(view.frame(now))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def text(piece: str, step: int = 0) -> tuple[str, dict[str, Any]]:
    return "text", {"run": "r", "step": step, "attempt": 1, "text": piece}


STARTED = ("turn.started", {"run": "r", "turn": 1, "message": "r"})
BATCH = ("batch.started", {"run": "r", "batch": "b", "children": CHILDREN})


def test_a_turn_that_waits_says_so() -> None:
    assert drawn(view_of()) == ["  waits for the turn before it …"]
    assert drawn(view_of(("turn.started", {"run": "other"}), ("text", {"run": "other", "step": 0, "text": "x"}))) == [
        "  waits for the turn before it …"
    ]


def test_text_appears_as_it_comes() -> None:
    assert drawn(view_of(STARTED)) == ["  thinking …"]
    assert drawn(view_of(STARTED, text("Hello "), text("you."))) == ["Hello you."]


def test_a_restarted_step_is_wiped() -> None:
    view = view_of(STARTED, text("Hel"), ("step_restarted", {"run": "r", "step": 0}), text("Good day"))
    assert drawn(view) == ["Good day"]


def test_each_child_has_a_line_with_state_tool_and_seconds() -> None:
    view = view_of(
        STARTED, text("Let me look."), BATCH,
        ("child.started", {"run": "k0", "batch": "b", "index": 0, "attempt": 1}),
        ("child.tool", {"run": "k0", "batch": "b", "index": 0, "name": "web_extract"}),
    )  # fmt: skip
    assert drawn(view) == [
        "Let me look.",
        "  ▸ tide tables  running, web_extract, 7 s",
        "  · harbour fees  queued",
        "  children at work …",
    ]


def test_a_child_that_ended_keeps_its_time() -> None:
    events = [
        STARTED, BATCH, ("child.started", {"run": "k0"}), ("child.started", {"run": "k1"}),
        ("child.ended", {"run": "k0", "status": "completed"}), ("child.ended", {"run": "k1", "status": "timed_out"}),
    ]  # fmt: skip
    lines = [str(line) for line in view_of(*events).child_lines(99)]
    assert lines == ["  ✓ tide tables  completed, 2 s", "  ✗ harbour fees  timed_out, 2 s"]


def test_a_child_taken_over_keeps_counting() -> None:
    view = view_of(STARTED, BATCH, ("child.started", {"run": "k0"}), ("child.started", {"run": "k0"}))
    assert "8 s" in drawn(view)[0]


def test_a_resync_brings_back_text_and_children() -> None:
    now = {
        "run": "r",
        "steps": [{"step": 0, "attempt": 0, "text": "Let me look.", "done": True}],
        "children": [
            {"run": "k0", "goal": "tides", "state": "running"},
            {"run": "k1", "goal": "fees", "state": "failed"},
        ],
    }
    lines = drawn(view_of(("resync", {"history": [], "open": now})))
    assert lines == ["Let me look.", "  ▸ tides  running, 10 s", "  ✗ fees  failed", "  children at work …"]


def test_tools_and_notices_are_named() -> None:
    view = view_of(STARTED, ("tool.started", {"run": "r", "name": "memory"}), ("notice", {"text": "slow today"}))
    assert drawn(view) == ["  slow today", "  memory …"]
    view.feed(Event("9-0", "tool.ended", {"run": "r", "name": "memory", "status": "ok"}), 9)
    assert drawn(view)[-1] == "  thinking …"


def test_a_long_text_shows_its_end_and_leaves_room() -> None:
    view = view_of(STARTED, text("\n".join(f"line {n}" for n in range(100))), BATCH)
    lines = drawn(view, height=12)
    assert len(lines) < 12
    assert "line 99" in lines
    assert "line 0" not in lines


def test_nothing_of_others_steers_the_terminal() -> None:
    view = view_of(STARTED, text("a\x1b[2Jb\x07\x9b1m"), BATCH)
    view.children["k0"].goal = "x\x1b]0;title\x07y"
    shown = "\n".join(drawn(view))
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "a�[2Jb" in shown


def test_brackets_are_text() -> None:
    assert drawn(view_of(STARTED, text("[bold]not bold[/bold] [/x]"))) == ["[bold]not bold[/bold] [/x]"]


def test_the_end_is_kept() -> None:
    end = {"run": "r", "turn": 1, "state": "completed", "text": "Hi"}
    assert view_of(STARTED, ("turn.ended", end)).end == end
    assert view_of(STARTED, ("turn.ended", end | {"run": "other"})).end is None
