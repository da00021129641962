"""The run of a fire: its owner's prompt, its owner's memory to read, and an answer that is delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.prompt import PromptSection
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.strategy import Event, Plan
from hermes_tasks.contracts.tools import ProgressNote

_FRAME: Final = (
    "You are a scheduled job of a personal agent. Your prompt was written earlier by the user who owns the job; nobody "
    "is there to answer questions. Do what it says with the tools you have. Files you leave in your workspace are "
    "there at the next run of this job. Your final text is delivered to the user as it stands: make it complete and "
    "readable on its own."
)


class CronStrategy:
    """See :class:`hermes_tasks.contracts.strategy.Strategy`.

    Args:
        offered: the schemas of the tools a policy grants.
        sections: the owner's memory blocks.
        now_words: the date and time in the owner's zone.
    """

    kind = RunKind.CRON

    def __init__(
        self,
        offered: Callable[[Policy], Sequence[Mapping[str, Any]]],
        sections: Callable[[str], Awaitable[Sequence[PromptSection]]],
        now_words: Callable[[str], Awaitable[str]],
    ) -> None:
        self._offered, self._sections, self._now_words = offered, sections, now_words

    async def prepare(self, journal: Journal) -> Plan:
        """The plan. Its bytes are pinned at the first claim, so a takeover shows the model the same conversation."""
        record = journal.record
        blocks = [section.text for section in await self._sections(record.user) if section.text]
        opening = f"{record.spec['prompt']}\n\n[{await self._now_words(record.user)}]"
        opening, system = await journal.pin(opening, "\n\n".join([_FRAME, *blocks]))
        policy = record.policy
        return Plan(
            system=system, messages=({"role": "user", "content": opening},), policy=policy, model=policy.model,
            tools=tuple(self._offered(policy)),
        )  # fmt: skip

    def events(self, journal: Journal, note: ProgressNote) -> Sequence[Event]:  # noqa: ARG002 - the protocol's
        """Nobody watches a job; its answer is delivered."""
        return ()

    async def finish(self, journal: Journal, outcome: Outcome) -> None:
        """End the run; ledger slot and delivery are written by the same script."""
        await journal.finish(outcome)
