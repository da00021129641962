"""The text of a turn through restarts, takeovers and gaps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hermes_tasks.client import LiveText, StepText


def piece(step: int, text: str, *, attempt: int = 1, run: str = "r") -> tuple[str, dict[str, Any]]:
    return "text", {"run": run, "step": step, "attempt": attempt, "text": text}


def fed(*events: tuple[str, dict[str, Any]]) -> LiveText:
    live = LiveText("r")
    for type, data in events:
        live.feed(type, data)
    return live


def test_pieces_are_put_together_step_by_step() -> None:
    live = fed(piece(0, "Let me "), piece(0, "look."), piece(2, "Found"), piece(2, " it."))
    assert live.text == "Let me look.\n\nFound it."


def test_other_runs_are_ignored() -> None:
    live = LiveText("r")
    assert not live.feed(*piece(0, "x", run="other"))
    assert live.text == ""


def test_a_restarted_step_begins_again_and_the_others_stay() -> None:
    live = fed(
        piece(0, "Look."), piece(2, "Fou"), ("step_restarted", {"run": "r", "step": 2}), piece(2, "Here", attempt=2)
    )
    assert live.text == "Look.\n\nHere"


def test_a_later_attempt_replaces_an_earlier_one_even_without_a_word() -> None:
    live = fed(piece(2, "Fou"), piece(2, "He", attempt=2), piece(2, "nd", attempt=1), piece(2, "re", attempt=2))
    assert live.text == "Here"


def test_a_resync_replaces_everything() -> None:
    now = {"run": "r", "steps": [asdict(StepText(0, 0, "Look.", done=True)), asdict(StepText(2, 3, "Fo"))]}
    live = fed(piece(0, "Lo"), piece(1, "gone"), ("resync", {"history": [], "open": now}))
    assert live.text == "Look.\n\nFo"
    assert not live.feed(*piece(0, "repeated"))
    assert live.feed(*piece(2, "und", attempt=3))
    assert live.text == "Look.\n\nFound"


def test_a_resync_of_another_turn_changes_nothing() -> None:
    live = fed(piece(0, "Hi"), ("resync", {"history": [], "open": {"run": "other", "steps": []}}))
    live.feed("resync", {"history": [], "open": None})
    assert live.text == "Hi"


def test_a_finished_step_cannot_be_taken_back() -> None:
    live = LiveText("r")
    live.finish(0, "whole")
    assert not live.feed("step_restarted", {"run": "r", "step": 0})
    assert live.steps() == [StepText(0, 0, "whole", done=True)]
