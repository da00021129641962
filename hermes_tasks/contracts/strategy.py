"""What a strategy gives to a run and takes from it, and where runs are claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.models import Message
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.tools import ProgressNote

Event = tuple[str, Mapping[str, Any]]

CLOSING_PROMPT = (
    "This is your last answer: you have used all your steps and no tool is available any more. "
    "Do not ask for one. Say in plain text what you found and did, what is unfinished, and the result so far."
)
SUMMARY_PROMPT = (
    "You condense the work of an agent so that it can go on without the original text. Write in the language of the "
    "work. Keep: the goal and every condition of it; what was done, with exact names, paths, numbers, ids and error "
    "texts; what was decided and why; what failed and must not be repeated; what is left to do. "
    "Leave out greetings and repetition. Do not answer, do not act, do not invent: only condense."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is asked to do; the same bytes after every takeover, since the stored steps continue it.

    Attributes:
        system: the system prompt.
        messages: chat-completions messages: the conversation before the run, then the message that opens it.
        policy: the limits pinned in the record.
        model: a name under ``models`` in the settings.
        tools: function schemas offered; what is accepted is the registry's decision, call by call.
        closing_prompt: said before the last answer the policy allows, which is asked for without tools.
        summary_prompt: the system prompt under which older steps are condensed.
        call_timeout_s: one model call, streaming included; never longer than what is left until the deadline.
        max_output_tokens: of one answer; None = the model's configured limit.
    """

    system: str
    messages: tuple[Message, ...]
    policy: Policy
    model: str
    tools: tuple[Mapping[str, Any], ...] = ()
    closing_prompt: str = CLOSING_PROMPT
    summary_prompt: str = SUMMARY_PROMPT
    call_timeout_s: float = 300.0
    max_output_tokens: int | None = None


class Strategy(Protocol):
    """One kind of run: what it is asked, what its watchers see, and what its end changes."""

    @property
    def kind(self) -> RunKind:
        """The kind it serves; one strategy per kind."""
        ...

    async def prepare(self, journal: Journal) -> Plan:
        """The plan of this run, built from its record and what was pinned when it began.

        Raises:
            HermesTasksError: it cannot be run; the run then ends ``failed`` with that text.
        """
        ...

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:
        """The session events that tell watchers about ``note``; empty for a run nobody watches."""
        ...

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """Write the terminal state together with everything that depends on it, in one script.

        Called once per claim with a terminal outcome. A second call after a broken reply changes nothing.

        Raises:
            LeaseLost, RunCancelled: somebody else ended or took the run; nothing was written.
        """
        ...


Lost = Callable[[LeaseLost | RunCancelled], None]


class Runs(Protocol):
    """Where runs are claimed."""

    async def claim(self, user: str, run_id: str, lost: Lost) -> Journal | None:
        """The lease on that run, or None when there is nothing to do (ended, waiting, held by another, unknown).

        Args:
            lost: called at most once, from any thread, as soon as the lease is known to be lost or the run to be
                ended from outside.
        """
        ...
