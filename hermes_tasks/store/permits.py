"""A provider endpoint's permits, lines and pauses, shared by all workers: the scripts ``permit_*`` on its own slot."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hermes_tasks.contracts.admission import Caller
from hermes_tasks.store.client import BRISK, Store
from hermes_tasks.store.keys import provider_key


@dataclass(frozen=True, slots=True)
class Lane:
    """One model at one provider endpoint. Limits: None = no limit.

    Attributes:
        endpoint: the digest of address and key; its models share the permits.
        model: the digest of the provider's name for it; pauses and rates are its own.
        max_concurrent: calls side by side at the whole endpoint.
    """

    endpoint: str
    model: str
    max_concurrent: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def rated(self) -> bool:
        """True when it has a rate limit of its own."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a script found.

    Attributes:
        word: ``ok``, ``full`` or ``paused``.
        left_s: until the model's pause ends.
        waiting: how many stand in line at the endpoint.
        wake: members who got a permit while they waited.
        busy: models of the endpoint that are paused or waited for; told by :meth:`Permits.tend` only.
    """

    word: str
    left_s: float
    waiting: int
    wake: tuple[str, ...]
    busy: frozenset[str]


def member_of(caller: Caller) -> str:
    """How a run is known at an endpoint: the same after a takeover, so that it finds its own permit again."""
    return f"{'turn' if caller.turn else 'rest'}|{caller.user}|{caller.run}"


def run_of(member: str) -> tuple[str, str]:
    """(user, run) of a member."""
    _, user, run = member.split("|", 2)
    return user, run


class Permits:
    """The scripts, typed.

    Args:
        lease: a permit that is not renewed for so long is free.
    """

    def __init__(self, store: Store, *, lease: timedelta = timedelta(seconds=10)) -> None:
        self._store = store
        self._lease_ms = round(lease.total_seconds() * 1000)

    async def enter(self, lane: Lane, member: str, *, stands: bool) -> Reply:
        """Take a permit for one call.

        Args:
            stands: stand in line when there is none.
        """
        return await self._call("permit_enter", lane, lane.model, member, int(stands))

    async def leave(self, lane: Lane, member: str, *, uncalled: bool = False) -> Reply:
        """Give a permit back. A second call changes nothing.

        Args:
            uncalled: only if the member was granted it and never came.
        """
        return await self._call("permit_leave", lane, member, int(uncalled), patience=timedelta())

    async def pause(self, lane: Lane, length: timedelta | None, *, back: str = "") -> Reply:
        """Nobody asks this model for a while. Many refusals at once count as one.

        Args:
            length: None = not known; it grows.
            back: a member that had a permit and goes to the head of the line.
        """
        length_ms = 0 if length is None else max(1, round(length.total_seconds() * 1000))
        return await self._call("permit_pause", lane, lane.model, length_ms, back)

    async def tend(self, lane: Lane, allowed: Mapping[str, int], members: Collection[str]) -> Reply:
        """What an endpoint needs once a second.

        Args:
            allowed: how many calls the rates of its models allow now.
            members: whose calls are on in this process.
        """
        return await self._call("permit_tend", lane, json.dumps(dict(allowed)), *members)

    async def _call(self, script: str, lane: Lane, *args: str | int, patience: timedelta = BRISK) -> Reply:
        answer: dict[str, Any] = await self._store.call_on(
            script, provider_key(lane.endpoint), lane.max_concurrent or 0, self._lease_ms, *args, patience=patience
        )
        return Reply(
            str(answer["r"]), int(answer.get("left", 0)) / 1000, int(answer["waiting"]),
            tuple(answer.get("wake") or ()), frozenset(answer.get("models") or ()),
        )  # fmt: skip
