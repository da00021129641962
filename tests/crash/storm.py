"""A fleet under random blows: a supervisor that starts what died, and somebody who strikes."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter

from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import blows
from tests.crash.blows import Blow
from tests.crash.fleet import Fleet
from tests.crash.viewer import Operator

FLEET = {"front": 1, "turns": 2, "delegation": 2, "review": 1, "memory": 1}
_WEIGHTS = {Blow.SIGKILL: 4, Blow.SIGTERM: 2, Blow.FROZEN: 3, Blow.STORE: 1}
_PAUSE_S = (0.2, 2.5)
_FREEZE_S = (0.5, 10.0)


class Storm:
    """Strikes a random process in a random way, ``blows`` times, with pauses between.

    Attributes:
        dealt: how often each blow fell on each role.
        fell: processes that ended although nobody struck them.
    """

    def __init__(
        self, fleet: Fleet, server: EmbeddedServer, operator: Operator, rng: random.Random, blows: int
    ) -> None:
        self._fleet, self._server, self._operator, self._rng = fleet, server, operator, rng
        self._left = blows
        self._next = time.monotonic()
        self._thaw: dict[subprocess.Popen[bytes], float] = {}
        self._leaving: dict[subprocess.Popen[bytes], float] = {}
        self._struck: set[int] = set()
        self.dealt: Counter[str] = Counter()
        self.fell: list[str] = []

    @property
    def over(self) -> bool:
        """No blow is left, and none is still felt."""
        return not (self._left or self._thaw or self._leaving)

    def tend(self) -> None:
        """What a supervisor does: start what is missing, kill what does not end."""
        now = time.monotonic()
        for process in [process for process, at in self._leaving.items() if process.poll() is not None or at < now]:
            blows.kill([process])
            del self._leaving[process]
        for role, wanted in FLEET.items():
            for process in self._fleet.processes.get(role, []):
                if process.poll() is not None and process.pid not in self._struck:
                    self._struck.add(process.pid)
                    self.fell.append(f"{role} ended by itself with {process.returncode}")
            self._fleet.start(role, wanted - len(self._staying(role)))

    def strike(self) -> None:
        """The next blow, if its time has come and the fleet has got up from the one before."""
        now = time.monotonic()
        for process in [process for process, at in self._thaw.items() if at < now]:
            blows.thaw([process])
            del self._thaw[process]
        if self._left and now > self._next and all(map(self._fleet.any_ready, FLEET)):
            [blow] = self._rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            self._deal(blow, self._rng.choice([role for role, count in FLEET.items() for _ in range(count)]))
            self._left -= 1
            self._next = time.monotonic() + self._rng.uniform(*_PAUSE_S)

    def _deal(self, blow: Blow, role: str) -> None:
        self.dealt[str(blow) if blow is Blow.STORE else f"{blow} {role}"] += 1
        if blow is Blow.STORE:
            return blows.restart(self._server, self._operator)
        victim = self._rng.choice(self._staying(role))
        if blow is Blow.FROZEN:
            blows.stall([victim])
            self._thaw[victim] = time.monotonic() + self._rng.uniform(*_FREEZE_S)
            return None
        self._thaw.pop(victim, None)
        self._struck.add(victim.pid)
        if blow is Blow.SIGKILL:
            return blows.kill([victim])
        blows.thaw([victim])
        victim.terminate()
        self._leaving[victim] = time.monotonic() + blows.STOP_S
        return None

    def _staying(self, role: str) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._fleet.alive(role) if process not in self._leaving]
