"""One run that kills its process beside 20 innocent ones: it ends lost, they complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
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

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]


class Supervised:
    """Keeps ``count`` trivial workers alive, as a supervisor does."""

    def __init__(self, server: EmbeddedServer, log: Path, count: int, broker: EmbeddedServer | None = None) -> None:
        broker_url = (broker or server).broker_url
        self._command = [sys.executable, trivial.__file__, server.url, broker_url, "delegation", str(log)]
        self.processes = [self._start() for _ in range(count)]
        self.deaths = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tend(self) -> None:
        for place, process in enumerate(self.processes):
            if process.poll() is not None:
                self.deaths += 1
                self.processes[place] = self._start()

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def test_a_poison_run_ends_lost_and_its_neighbours_complete(server: EmbeddedServer, tmp_path: Path) -> None:
    bridge = LoopBridge()
    bridge.start()

    bell = CeleryBell(make_app(server.broker_url))

    async def make() -> tuple[Store, Runs]:
        store = Store(server.url, trivial.CONFIG)
        return store, Runs(store, bell)

    store, runs = bridge.run(make())
    bridge.run(Users(store).add("ann"))
    workers = Supervised(server, tmp_path / "log", 2)
    innocents = [f"good{number}" for number in range(20)]
    try:
        specs = [("poison", {"n": 1, "poison": True})] + [(name, {"n": 8, "pause_s": 0.5}) for name in innocents]
        for name, spec in specs:
            run = NewRun(id=name, kind=RunKind.CHILD, user="ann", spec=spec, policy=trivial.POLICY)
            assert bridge.run(runs.create(run))

        def over() -> bool:
            workers.tend()
            return all(bridge.run(runs.get("ann", name)).state.terminal for name, _ in specs)

        wait_until("every run is over", over, 200, pause_s=0.2)
        poison = bridge.run(runs.get("ann", "poison"))
        assert (poison.state, poison.exit_reason) == (RunState.LOST, ExitReason.MAX_ATTEMPTS)
        assert poison.attempts == 4
        states = {name: bridge.run(runs.get("ann", name)).state for name in innocents}
        assert set(states.values()) == {RunState.COMPLETED}, states
        assert workers.deaths == 4, "given up after exactly as many deaths as attempts are allowed"
    finally:
        workers.stop()
        bell.close()
        bridge.run(store.aclose())
        bridge.stop()
