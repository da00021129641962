"""A turn: the pinned prompt, the conversation, recall in the model's copy of the message, and one-script commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.conversation import conversation
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.prompt import Layer, PromptSection
from hermes_tasks.contracts.runs import Outcome, Policy, RunRecord
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote
from hermes_tasks.store.sessions import Sessions

IDENTITY: Final = PromptSection(
    Layer.STABLE,
    "identity",
    "You are a personal agent. You talk with one user, remember what matters to them, and get work done by handing "
    "it to sub-agents: they have a terminal, files and the web, you do not. Delegate what needs tools or can go on in "
    "parallel; answer directly what you know. Be brief, say what is uncertain, and never claim something was done "
    "that no tool result shows.",
)


#: The origin of a turn that nobody's message began.
DELEGATED: Final = "delegation"
RESULTS_HEAD: Final = (
    "[Results of the sub-agents of delegation {batch}, which you started earlier and did not wait for. This is not a "
    "message of the user, who has not seen it. Tell the user what matters of it.]"
)


class TurnStrategy:
    """See :class:`hermes_tasks.contracts.strategy.Strategy`.

    Args:
        offered: the schemas of the tools a policy grants.
        sections: the user's prompt sections beside the identity (memory).
        recall: text worth recalling for (user, session, message), fenced, or "".
        now_words: date and time in the user's zone.
        results: what the children of a batch found, for (user, batch).
    """

    kind = RunKind.TURN

    def __init__(
        self,
        sessions: Sessions,
        offered: Callable[[Policy], Sequence[Mapping[str, Any]]],
        sections: Callable[[str], Awaitable[Sequence[PromptSection]]],
        recall: Callable[[str, str, str], Awaitable[str]],
        now_words: Callable[[str], Awaitable[str]],
        results: Callable[[str, str], Awaitable[str]],
    ) -> None:
        self._sessions, self._offered, self._results = sessions, offered, results
        self._sections, self._recall, self._now_words = sections, recall, now_words

    async def prepare(self, journal: Journal) -> Plan:
        """The plan. What the model sees is pinned by the first holder; every later one gets the same bytes."""
        record = journal.record
        opening, system = record.opening, ""
        if not opening:
            parts = [*await self._said(record), f"[{await self._now_words(record.user)}]"]
            opening = "\n\n".join(part for part in parts if part)
        system = await self._sessions.pinned_prompt(record.user, record.session, record.generation)
        if not system:
            sections = sorted([IDENTITY, *await self._sections(record.user)], key=lambda section: section.layer)
            system = "\n\n".join(section.text for section in sections if section.text)
        opening, system = await journal.pin(opening, system)
        turns = await self._sessions.history(record.user, record.session)
        return Plan(
            system=system, messages=(*conversation(turns), {"role": "user", "content": opening}), policy=record.policy,
            model=record.policy.model, tools=tuple(self._offered(record.policy)),
        )  # fmt: skip

    async def _said(self, record: RunRecord) -> Sequence[str]:
        """What opens the turn: the user's words and what they recall, or results that nobody waited for."""
        if record.spec.get("origin") == DELEGATED:
            batch = str(record.spec["batch"])
            return (RESULTS_HEAD.format(batch=batch), await self._results(record.user, batch))
        text = str(record.spec["text"])
        return (text, await self._recall(record.user, record.session, text))

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:
        """What the user sees while the turn is at work."""
        run = journal.record.id
        match note.kind:
            case "text":
                data = {"run": run, "step": note.step, "attempt": journal.attempt, "text": note.text}
                return ((EventType.TEXT, data),)
            case "step_restarted":
                return ((EventType.STEP_RESTARTED, {"run": run, "step": note.step, "attempt": journal.attempt}),)
            case "tool_started":
                return ((EventType.TOOL_STARTED, {"run": run, "name": note.name}),)
            case "tool_ended":
                return ((EventType.TOOL_ENDED, {"run": run, "name": note.name, "status": note.status}),)
            case "answer":
                return ()  # its pieces were shown as they came

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """Commit: history, channel entry, owed review, the answer's event and the next turn, in one script."""
        await journal.finish(outcome)
