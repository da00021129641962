"""The tokens a user may use in a day: set aside before each call, settled by what the call really used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_tasks.agent.pausing import Paused, backoff
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.journal import Journal
from hermes_tasks.contracts.kinds import RunKind, WaitReason
from hermes_tasks.contracts.runs import OverBudget, Pause
from hermes_tasks.contracts.strategy import Plan

#: Set aside for an answer whose length is not limited.
ANSWER_TOKENS: Final = 1_000
#: While other runs' calls are on: what they do not use is free when they end.
_OTHERS_S: Final = 10.0
#: Users of one zone do not all come back at the first moment of their day.
_SPREAD_S: Final = 60.0


class OverDay(Exception):
    """The run ends, because the tokens of its user's day do not suffice. Its text is for the user."""


@dataclass(frozen=True, slots=True)
class DayBudget:
    """What a user may use in one day of their own zone.

    Attributes:
        tokens: 0 = no limit.
        answers: by model: the most tokens an answer may have, where that is limited.
    """

    tokens: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)

    def wanted(self, plan: Plan, coming: int) -> int:
        """What a call may use: ``coming`` tokens of input, and its answer."""
        return coming + (plan.max_output_tokens or self.answers.get(plan.model, ANSWER_TOKENS))

    async def reserve(self, journal: Journal, wanted: int, failures: int) -> None:
        """Set ``wanted`` tokens aside for the next call, if there is a limit.

        Args:
            failures: calls that failed in a row until now.

        Raises:
            OverDay: it is a turn, which does not wait for tomorrow, or tomorrow's tokens would not suffice either.
            Paused: until there are tokens again.
        """
        over = await journal.reserve(wanted, self.tokens) if self.tokens else None
        if over is None:
            return
        record = journal.record
        if wanted > over.limit:
            raise OverDay(
                f"the next step needs about {wanted:,} tokens, more than the {over.limit:,} that you may use in one day"
            )
        if over.used + wanted <= over.limit:
            # Only what others set aside is in the way, and most of that they will not use.
            wait = _OTHERS_S * backoff(record.id, 1)
            raise Paused(Pause(why=WaitReason.BUDGET, detail="calls of other runs", wait_s=wait, failures=failures))
        if record.kind is RunKind.TURN:
            raise OverDay(told(over, record.zone))
        spread = _SPREAD_S * int(derived_id(record.id)[:4], 16) / 0xFFFF
        wait = over.resets_in_s + spread
        raise Paused(Pause(why=WaitReason.BUDGET, detail=over.resets.isoformat(), wait_s=wait, failures=failures))


def told(over: OverBudget, zone: str) -> str:
    """What the user reads."""
    return (
        f"your tokens for today are used up: {over.used:,} of {over.limit:,}; "
        f"there are new ones at {over.resets:%H:%M} on {over.resets:%Y-%m-%d} ({zone})"
    )
