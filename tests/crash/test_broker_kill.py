"""The broker killed again and again while workers take and acknowledge doorbells: no worker ends, none goes deaf."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import NewRun
from hermes_tasks.runtime.app import make_app
from hermes_tasks.runtime.bell import CeleryBell
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.store.client import Store
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.users import Users
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import trivial
from tests.crash.fleet import wait_until
from tests.crash.test_poison import Supervised

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


def test_workers_survive_a_broker_that_restarts_under_load(server: EmbeddedServer, tmp_path: Path, rounds: int) -> None:
    bridge = LoopBridge()
    bridge.start()
    with EmbeddedServer(tmp_path / "broker") as broker:
        bell = CeleryBell(make_app(broker.broker_url))

        async def make() -> tuple[Store, Runs]:
            store = Store(server.url, trivial.CONFIG)
            return store, Runs(store, bell)

        store, runs = bridge.run(make())
        bridge.run(Users(store).add("ann"))
        workers = Supervised(server, tmp_path / "log", 2, broker)
        try:
            for round_ in range(rounds):
                names = [f"{round_}.{number}" for number in range(40)]
                for name in names:
                    run = NewRun(
                        id=name, kind=RunKind.CHILD, user="ann", spec={"n": 2, "pause_s": 0.2}, policy=trivial.POLICY
                    )
                    bridge.run(runs.create(run))
                wait_until(
                    "some work is under way",
                    lambda: (tmp_path / "log").exists() and f"claim {names[5]}" in (tmp_path / "log").read_text(),  # noqa: B023
                    60,
                )
                broker.kill()
                broker.start()
                took = wait_until(
                    "all runs end",
                    lambda: all(bridge.run(runs.get("ann", name)).state.terminal for name in names),  # noqa: B023
                    60,
                )
                assert took < 30, "new work must start within 30 s of the broker's return"
                assert all(process.poll() is None for process in workers.processes), "a worker ended"
        finally:
            workers.stop()
            bell.close()
            bridge.run(store.aclose())
            bridge.stop()
