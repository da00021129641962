"""A review run: the session as it was after its turn, one instruction, and the memory tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.conversation import conversation
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.store.sessions import Sessions

_INSTRUCTION: Final = (
    "Review the conversation above. Did the user reveal something about themselves (who they are, what they prefer, "
    "what they work on) or about how they expect you to behave, that will still matter in later conversations? "
    "If so, store it with the memory tool: short, self-contained entries; USER for the person, MEMORY for the rest; "
    "change an entry instead of adding a similar one. Store no secrets, no one-off details, nothing about tools that "
    "failed. Only the memory tool works here, and nobody reads your answer. If nothing is worth keeping, say so and "
    "stop."
)


class ReviewStrategy:
    """See :class:`hermes_tasks.contracts.strategy.Strategy`.

    The run has no session of its own, so it leaves no trace in the conversation; it replays the session's own prefix,
    which a provider's cache may still hold.

    Args:
        offered: the schemas of the tools a policy grants.
    """

    kind = RunKind.REVIEW

    def __init__(self, sessions: Sessions, offered: Callable[[Policy], Sequence[Mapping[str, Any]]]) -> None:
        self._sessions, self._offered = sessions, offered

    async def prepare(self, journal: Journal) -> Plan:
        """The plan: history up to the reviewed turn, then the instruction."""
        record = journal.record
        session, last = str(record.spec["session"]), int(record.spec["turn"])
        turns = [turn for turn in await self._sessions.history(record.user, session) if turn["turn"] <= last]
        system = await self._sessions.pinned_prompt(record.user, session)
        instruction = {"role": "user", "content": _INSTRUCTION}
        return Plan(
            system=system, messages=(*conversation(turns), instruction), policy=record.policy,
            model=record.policy.model, tools=tuple(self._offered(record.policy)),
        )  # fmt: skip

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:  # noqa: ARG002 - the protocol's
        """Nobody watches a review."""
        return ()

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """End the run; the same script starts the next review that is owed to the user."""
        await journal.finish(outcome)
