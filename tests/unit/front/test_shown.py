"""What a user may read of each record."""

from __future__ import annotations

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.front.shown import event_shown, run_shown, turn_shown
from hermes_tasks.store.events import Event

BLOCK = "<memory-context>\nSECRET\n</memory-context>"


def stored_turn(**changes: object) -> dict[str, object]:
    return {
        "v": 1, "turn": 3, "run": "r", "state": "completed", "reason": "completed", "origin": "user", "user": "hi",
        "opening": "SECRET", "generation": 1, "steps": ["SECRET"], "text": "hello", "at": 5, "usage": {},
    } | changes  # fmt: skip


def test_a_turn_shows_what_was_said_and_nothing_internal() -> None:
    shown = turn_shown(stored_turn(text=f"a\n{BLOCK}\nb"))
    assert "SECRET" not in str(shown)
    assert (shown["user"], shown["assistant"], shown["at_ms"]) == ("hi", "a\n\nb", 5)


def test_what_the_system_said_in_the_users_place_is_not_the_users_words() -> None:
    shown = turn_shown(stored_turn(origin="delegation", user="SECRET results"))
    assert (shown["user"], shown["origin"]) == ("", "delegation")


def test_the_users_own_words_stay_as_they_were_typed() -> None:
    assert turn_shown(stored_turn(user=BLOCK))["user"] == BLOCK


def test_a_run_shows_numbers_goal_and_error_but_no_other_text() -> None:
    record = RunRecord(
        id="r", kind=RunKind.CHILD, user="ada", state=RunState.FAILED, policy=Policy(iterations=1, deadline_s=1),
        spec={"goal": f"find\n{BLOCK}\nit", "context": "SECRET"}, result={"text": "SECRET", "error": "it broke"},
        attempts=2, takeovers=1, created=1000, started=2000, ended=3500,
    )  # fmt: skip
    shown = run_shown(record)
    assert "SECRET" not in str(shown)
    assert (shown["goal"], shown["error"]) == ("find\n\nit", "it broke")
    assert (shown["attempts"], shown["takeovers"], shown["duration_s"]) == (2, 1, 1.5)


def test_whole_texts_of_events_are_scrubbed_at_any_depth() -> None:
    children = [{"run": "k", "goal": f"x\n{BLOCK}\ny", "index": 0}]
    shown = event_shown(Event("1-0", "batch.started", {"run": "r", "children": children}))
    assert shown == {"run": "r", "children": [{"run": "k", "goal": "x\n\ny", "index": 0}]}


def test_pieces_of_text_pass_as_they_are() -> None:
    data = {"run": "r", "step": 0, "text": "<memory-context>\n is the tag's name"}
    assert event_shown(Event("1-0", "text", data)) == data
