"""Killing what writes memory, with 5 sessions x 20 turns pending: every turn once, in order, per session."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from hermes_tasks.contracts.memory import EntryKind
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash

SESSIONS, TURNS = 5, 20


def append_all(operator: Operator, prefix: str) -> None:
    """5 sessions x 20 turns, interleaved; every append that returns is acknowledged."""

    async def work() -> None:
        base = operator.base
        for session in range(SESSIONS):
            await base.sessions.open("ann", f"{prefix}{session}")
        for turn in range(1, TURNS + 1):
            for session in range(SESSIONS):
                name = f"{prefix}{session}"
                await base.channel.append(
                    "ann", name, EntryKind.TURN, {"user": f"q{turn}", "assistant": f"a{turn}"},
                    turn=turn, turn_id=f"{name}.{turn}",
                )  # fmt: skip

    operator.run(work())


def remembered(operator: Operator, prefix: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for document in operator.run(operator.base.memory.turns("ann", 100_000)):
        if document["session"].startswith(prefix):
            found[document["session"]].append(document["turn"])
    return found


def settled(operator: Operator, prefix: str) -> bool:
    states = [operator.run(operator.base.channel.state("ann", f"{prefix}{session}")) for session in range(SESSIONS)]
    return all(last == applied == TURNS for last, applied in states)


def check(operator: Operator, prefix: str) -> None:
    wait_until("all turns are in memory", lambda: settled(operator, prefix), 60)
    found = remembered(operator, prefix)
    assert found == {f"{prefix}{session}": list(range(1, TURNS + 1)) for session in range(SESSIONS)}


def slow_fleet(tmp_path: Path, server: EmbeddedServer) -> Fleet:
    # One entry per script, so that a kill lands between two of them.
    return Fleet(
        tmp_path, server, 1, {"HERMES_TASKS_MEMORY__DRAIN_BATCH": "1", "HERMES_TASKS_MEMORY__TURNS_KEPT": "100000"}
    )


def test_every_turn_lands_once_in_order_when_the_worker_is_killed(
    server: EmbeddedServer, tmp_path: Path, rounds: int
) -> None:
    with slow_fleet(tmp_path, server) as fleet, Operator(fleet.settings) as operator:
        operator.add_user("ann")
        fleet.start("memory", 2)
        for round_ in range(rounds):
            prefix = f"r{round_}-"
            killer = threading.Thread(target=kill_while_draining, args=(fleet, operator, prefix))
            killer.start()
            append_all(operator, prefix)
            killer.join()
            check(operator, prefix)


def kill_while_draining(fleet: Fleet, operator: Operator, prefix: str) -> None:
    """SIGKILL both memory workers once some, not all, turns have landed; two new ones go on."""
    wait_until("draining has begun", lambda: sum(map(len, remembered(operator, prefix).values())) >= 3, 60)
    victims = fleet.alive("memory")
    for process in victims:
        process.send_signal(signal.SIGKILL)
        process.wait()
    fleet.start("memory", len(victims))


def test_every_turn_lands_once_in_order_when_the_store_is_killed(
    server: EmbeddedServer, tmp_path: Path, rounds: int
) -> None:
    with slow_fleet(tmp_path, server) as fleet, Operator(fleet.settings) as operator:
        operator.add_user("ann")
        fleet.start("memory", 2)
        append_all(operator, "warm-")
        check(operator, "warm-")
        for round_ in range(rounds):
            prefix = f"s{round_}-"
            append_all(operator, prefix)
            # With `everysec` the server holds writes back while an fsync is under way (docs/guarantees.md).
            wait_until("the log has every append", lambda: operator.unlogged_bytes() == 0, 10, pause_s=0.001)
            server.kill()
            server.start()
            back = time.monotonic()
            check(operator, prefix)
            assert time.monotonic() - back < 30
            assert len(fleet.alive("memory")) == 2, "workers must resume by themselves, not be restarted"
