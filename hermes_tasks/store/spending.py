"""What a user's model calls of one day used, as the scripts keep it in ``spend:<day>``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from hermes_tasks.contracts.steps import Usage
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import user_key

_SET_ASIDE: Final = "r:"


@dataclass(frozen=True, slots=True)
class Spent:
    """What runs of one kind used of one model."""

    kind: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class DaySpending:
    """One day of a user.

    Attributes:
        rows: by kind and model, in their alphabetical order.
        tokens: input and output, as they count for the daily budget.
        reserved: tokens that are set aside for calls that are on.
    """

    rows: tuple[Spent, ...]
    tokens: int
    reserved: int

    @property
    def total(self) -> Usage:
        """The sum of all rows."""
        total = Usage()
        for row in self.rows:
            total = total.plus(row.usage)
        return total


class Spending:
    """Reads what was spent; the scripts that store a model's answer write it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def day(self, user: str, day: str) -> DaySpending:
        """What the user's calls used on that day; all zero for one without calls, or older than it is kept.

        Args:
            day: ``YYYY-MM-DD`` in the user's zone.
        """
        [fields] = await self._store.read(("HGETALL", user_key(user, f"spend:{day}")))
        counts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        reserved = 0
        for name, value in fields.items():
            if name.startswith(_SET_ASIDE):
                reserved += int(value)
            elif name.count("|") == 2:
                kind, model, what = name.split("|")
                counts[kind, model][what] = int(value)
        rows = tuple(Spent(kind, model, Usage(**used)) for (kind, model), used in sorted(counts.items()))
        return DaySpending(rows, int(fields.get("tokens", 0)), reserved)
