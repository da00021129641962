"""Recall from the built-in memory: the user's own past turns that share telling words with a query."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hermes_tasks.contracts.clock import from_ms
from hermes_tasks.contracts.memory import Recalled
from hermes_tasks.memory.terms import folded, found_in, terms, weights
from hermes_tasks.store.memory import Memory

MAX_CHARS: Final = 2000
_MOST: Final = 5
_USER_CHARS: Final = 160
_ASSISTANT_CHARS: Final = 200
_QUERY_CHARS: Final = 4000
_FLOOR: Final = 1 / 3  # of the best score: what fits much worse than the best is noise


class BuiltinRecall:
    """See :class:`hermes_tasks.contracts.memory.MemoryProvider`.

    Args:
        turns_kept: how many of the user's newest turns are looked at.
        in_prompt: the newest turns of the asking session are not recalled: its conversation has them anyway.
    """

    name = "builtin"

    def __init__(self, memory: Memory, *, turns_kept: int = 1000, in_prompt: int = 20) -> None:
        self._memory, self._turns_kept, self._in_prompt = memory, turns_kept, in_prompt

    async def prefetch(self, query: str, *, user: str, session: str) -> str:
        """At most five turns, the best first, in at most 2,000 characters; empty when none fits the query."""
        shown, left = [], MAX_CHARS
        for recalled in await self.search(query, user=user, session=session):
            left -= len(recalled.text) + 1
            if left < 0:
                break
            shown.append(recalled.text)
        return "\n".join(shown)

    async def search(self, query: str, *, user: str, session: str, limit: int = _MOST) -> list[Recalled]:
        """The turns that fit ``query`` best, the newer first among equals.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        wanted = terms(query[:_QUERY_CHARS])
        if not wanted:
            return []
        turns = await self._memory.turns(user, self._turns_kept)
        # In a thread: a thousand long turns take tens of milliseconds, and everybody shares the event loop.
        return await asyncio.to_thread(_best, turns, wanted, session, self._in_prompt, limit)


def _best(
    turns: Sequence[Mapping[str, Any]], wanted: Sequence[str], session: str, in_prompt: int, limit: int
) -> list[Recalled]:
    candidates = _outside_prompt(turns, session, in_prompt)
    documents = [found_in(folded(f"{turn['user']}\n{turn['assistant']}"), wanted) for turn in candidates]
    says = weights(documents)
    scored = [
        (round(sum(says.get(term, 0) for term in document), 6), place) for place, document in enumerate(documents)
    ]
    ranked = sorted((item for item in scored if item[0] > 0), reverse=True)
    found: dict[str, Recalled] = {}
    for score, place in ranked:
        if len(found) == limit or score < ranked[0][0] * _FLOOR:
            break
        turn = candidates[place]
        same = f"{turn['user']}\n{turn['assistant']}"
        if same not in found:  # what was said twice is recalled once, in its newest form
            text = _told(turn, documents[place])
            found[same] = Recalled(text=text, session=turn["session"], turn=turn["turn"], score=score)
    return list(found.values())


def _outside_prompt(turns: Sequence[Mapping[str, Any]], session: str, in_prompt: int) -> list[Mapping[str, Any]]:
    own = [place for place, turn in enumerate(turns) if turn["session"] == session]
    hidden = set(own[max(0, len(own) - in_prompt) :])
    return [turn for place, turn in enumerate(turns) if place not in hidden]


def _told(turn: Mapping[str, Any], hits: Iterable[str]) -> str:
    parts = [f"- {from_ms(turn['at']):%Y-%m-%d}"]
    for who, limit in (("user", _USER_CHARS), ("assistant", _ASSISTANT_CHARS)):
        if turn[who]:
            parts.append(f"{who}: {_excerpt(turn[who], hits, limit)}")
    return " | ".join(parts)


def _excerpt(text: str, hits: Iterable[str], limit: int) -> str:
    """One line of the text, around the first word that was found in it."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    compared = folded(line)
    first = min((at for hit in hits if (at := compared.find(hit)) >= 0), default=0)
    start = first - limit // 4
    if start <= 0:
        return f"{line[: limit - 1]}…"
    if start + limit >= len(line):
        return f"…{line[len(line) - limit + 1 :]}"
    return f"…{line[start : start + limit - 2]}…"
