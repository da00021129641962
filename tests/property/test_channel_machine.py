"""Whatever happens to those who drain: each session's entries are applied in their order, each once, none is lost.

A small model in Python and the store are driven by the same random steps: two sessions compete for one place, holders
crash and wake up late, answers get lost, leases run out, doorbells are not needed.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hermes_tasks.contracts.errors import Conflict, LeaseLost
from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.store.channel import BUILTIN, Draining
from hermes_tasks.store.keys import shard_key, user_key
from tests.integration.store.world import CONFIG, USER, World, documents

T = TypeVar("T")

SESSIONS = ("a", "b")
ONE_DRAIN = replace(CONFIG, windows={**CONFIG.windows, "drain": 1})
sessions = st.sampled_from(SESSIONS)
batches = st.integers(1, 4)


@dataclass
class Model:
    """What must be true: entries and the applied prefix of each session, and who has the one place for drains."""

    entries: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in SESSIONS})
    applied: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SESSIONS, 0))
    turns: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in SESSIONS})
    memory: list[tuple[str, int]] = field(default_factory=list)
    place: str | None = None
    queue: deque[str] = field(default_factory=deque)
    holder: Draining | None = None

    def wake(self, session: str) -> None:
        if session != self.place and session not in self.queue:
            self.queue.append(session)
        self._admit()

    def release(self, session: str) -> None:
        self.place, self.holder = None, None
        self._admit()
        if self.applied[session] < len(self.entries[session]):
            self.wake(session)

    def append(self, session: str, entry: str) -> int:
        self.entries[session].append(entry)
        self.wake(session)
        return len(self.entries[session])

    def next(self, session: str, count: int) -> list[int]:
        at = self.applied[session]
        return list(range(at + 1, min(at + count, len(self.entries[session])) + 1))

    def apply(self, session: str, positions: list[int], more: int) -> bool:
        assert positions == [self.applied[session] + 1 + n for n in range(len(positions))]
        self.memory += [(session, pos) for pos in positions]
        self.applied[session] += len(positions)
        if more and self.applied[session] < len(self.entries[session]):
            return True
        self.release(session)
        return False

    def _admit(self) -> None:
        if self.place is None and self.queue:
            self.place = self.queue.popleft()


class ChannelMachine(RuleBasedStateMachine):
    """The store beside the model."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.world = World(url, ONE_DRAIN)
        self.model = Model()
        self.crashed: list[Draining] = []
        self.do(self._begin())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    async def _begin(self) -> None:
        await self.world.command("FLUSHALL")
        await self.world.users.add(USER)
        for session in SESSIONS:
            await self.world.session(session)

    # -- producers ---------------------------------------------------------------------------------------------------

    @rule(session=sessions)
    def append_turn(self, session: str) -> None:
        turns = self.model.turns[session]
        turns.append(f"{session}-{len(turns) + 1}")
        assert self.do(self.world.append(session, len(turns), turns[-1])) == self.model.append(session, turns[-1])

    @rule(session=sessions)
    def append_what_is_no_turn(self, session: str) -> None:
        appending = self.world.channel.append(USER, session, EntryKind.MEMORY_WRITE, {})
        assert self.do(appending) == self.model.append(session, "write")

    @precondition(lambda self: any(self.model.turns.values()))
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from([name for name in SESSIONS if self.model.turns[name]]))
        turn = data.draw(st.integers(1, len(self.model.turns[session])))
        assert self.do(self.world.append(session, turn, self.model.turns[session][turn - 1])) is None
        with pytest.raises(Conflict):
            self.do(self.world.append(session, turn, "somebody else's"))

    # -- those who drain ---------------------------------------------------------------------------------------------

    @rule(session=sessions, batch=batches)
    def claim(self, session: str, batch: int) -> None:
        draining = self.do(self.world.channel.claim(USER, session, BUILTIN, batch))
        free = self.model.place == session and self.model.holder is None
        assert (draining is not None) == free
        if draining is not None:
            assert [entry.pos for entry in draining.entries] == self.model.next(session, batch)
            self.model.holder = draining

    @precondition(lambda self: self.model.holder is not None)
    @rule(more=st.integers(0, 4), answer_lost=st.booleans())
    def apply(self, more: int, answer_lost: bool) -> None:
        draining = self.model.holder
        assert draining is not None
        positions = [entry.pos for entry in draining.entries]
        if answer_lost:
            self._applied(copy.copy(draining), more)
        went_on = self._applied(draining, more)
        assert went_on == self.model.apply(draining.session, positions, more)
        if went_on:
            assert [entry.pos for entry in draining.entries] == self.model.next(draining.session, more)
        else:
            self.crashed.append(replace(draining, pos=draining.pos))  # and it may come again, whenever it likes

    def _applied(self, draining: Draining, more: int) -> bool:
        return self.do(self.world.channel.apply(draining, documents(draining), more))

    @precondition(lambda self: self.model.holder is not None)
    @rule()
    def crash(self) -> None:
        draining = self.model.holder
        assert draining is not None
        self.crashed.append(copy.copy(draining))
        self.do(self.world.expire(draining))

    @precondition(lambda self: self.model.holder is not None)
    @rule()
    def lease_becomes_due(self) -> None:
        draining = self.model.holder
        assert draining is not None
        self.do(self.world.make_due(f"cur:{draining.lease.id}"))

    @rule(allowed=st.booleans())
    def look(self, allowed: bool) -> None:
        holder = self.model.holder
        answer = self.do(self.world.look(takeovers=allowed))
        expired = holder is not None and not self.world.renewer.holds(holder.lease)
        assert answer["takeovers"] in ((0, 1) if expired and allowed else (0,))
        if answer["takeovers"]:
            self.model.holder = None

    @precondition(lambda self: self.crashed)
    @rule(data=st.data(), more=st.integers(0, 4))
    def apply_late(self, data: st.DataObject, more: int) -> None:
        late = copy.copy(data.draw(st.sampled_from(self.crashed)))
        holder = self.model.holder
        still_ours = holder is not None and holder.lease.holder == late.lease.holder
        if still_ours and holder is not None and late.pos == holder.pos:
            return  # nobody took it over: it is the holder, and `apply` plays it
        before = self.do(self.world.remembered())
        with suppress(LeaseLost):
            self.do(self.world.channel.apply(late, documents(late), more))
        assert self.do(self.world.remembered()) == before

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def applied_is_a_prefix_in_order_once(self) -> None:
        memory, due, hint, *positions = self.do(
            self.world.store.read(
                ("LRANGE", user_key(USER, "mem:turns"), 0, -1), ("ZRANGE", user_key(USER, "due"), 0, 0, "WITHSCORES"),
                ("ZSCORE", shard_key(USER), USER),
                *(("HGET", user_key(USER, key), "pos") for name in SESSIONS
                  for key in (f"chan:{name}", f"cur:{name}|{BUILTIN}")),
            )
        )  # fmt: skip
        assert [(turn["session"], turn["pos"]) for turn in map(json.loads, memory)] == self.model.memory
        assert [int(pos or 0) for pos in positions] == [
            count for name in SESSIONS for count in (len(self.model.entries[name]), self.model.applied[name])
        ]
        assert not due or (hint is not None and float(hint) <= float(due[1])), "whatever is due has a hint"

    def teardown(self) -> None:
        try:
            self._quiesce()
        finally:
            self.do(self.world.aclose())
            self.loop.close()

    def _quiesce(self) -> None:
        """All processes are gone; one comes back and follows the doorbells: nothing is left."""
        if self.model.holder is not None:
            self.do(self.world.take_over(self.model.holder))
            self.model.holder = None
        for _ in range(50):
            if self.model.place is None:
                break
            session = self.model.place
            draining = self.do(self.world.drain(session, 100))
            assert not self._applied(draining, 0)
            self.model.apply(session, self.model.next(session, 100), 0)
        self.applied_is_a_prefix_in_order_once()
        for session in SESSIONS:
            assert self.model.applied[session] == len(self.model.entries[session])
            assert self.do(self.world.log(session)) == []
        self.do(self.world.look())
        assert self.do(self.world.due()) == {}
        assert self.do(self.world.on("SMEMBERS", "win:drain")) == set()


def test_the_store_and_the_model_agree(store_url: str) -> None:
    run_state_machine_as_test(
        lambda: ChannelMachine(store_url),
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )  # fmt: skip
