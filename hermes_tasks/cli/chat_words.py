"""What chat says in words, in a terminal as in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_tasks.cli.printing import clean, moment

if TYPE_CHECKING:
    from hermes_tasks.client import Answer

COMMANDS: Final = "/new a new session · /history what was said · /quit leave"


def conversation(turns: list[dict[str, Any]]) -> str:
    """Turns as people read them."""
    if not turns:
        return "nothing was said in this session yet"
    told = []
    for turn in turns:
        told.append(f"{moment(turn['at_ms'])}  you: {clean(turn['user'])}")
        ended = "" if turn["state"] == "completed" else f" [{turn['state']}: {turn['error'] or turn['reason']}]"
        told.append(f"{clean(turn['assistant'])}{clean(ended)}")
    return "\n".join(told)


def unanswered(answer: Answer) -> str:
    """Why a turn has no answer, in one line."""
    return clean(f"the turn is {answer.state}: {answer.error or answer.exit_reason or 'no reason was given'}")
