"""A fleet under random blows: somebody who strikes, and a supervisor who starts what died."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hermes_tasks.contracts.exits import ExitCode
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import blows
from tests.crash.blows import Blow
from tests.crash.fleet import Fleet
from tests.crash.viewer import Operator

FLEET = {"front": 1, "turns": 2, "delegation": 2, "review": 1, "memory": 1}
_WEIGHTS = {Blow.SIGKILL: 4, Blow.SIGTERM: 2, Blow.FROZEN: 3, Blow.STORE: 1}
_PAUSE_S = (0.2, 2.5)
_FREEZE_S = (0.5, 10.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """One blow to come: on a process of which role, on which of them (0 to 1), and seconds that belong to it."""

    blow: Blow
    role: str
    which: float
    frozen_s: float
    pause_s: float


def plan(rng: random.Random, count: int) -> Iterator[Planned]:
    """The same dice give the same blows, whatever they hit."""
    places = [role for role, processes in FLEET.items() for _ in range(processes)]
    for _ in range(count):
        [blow] = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        yield Planned(blow, rng.choice(places), rng.random(), rng.uniform(*_FREEZE_S), rng.uniform(*_PAUSE_S))


class Storm:
    """Strikes as planned, with pauses between, and keeps the fleet whole.

    Attributes:
        dealt: how often each blow fell on each role.
        fell: processes that ended although nobody struck them. One that begins while the store is away may: it says so
            with its exit code, and is started again.
    """

    def __init__(self, fleet: Fleet, server: EmbeddedServer, operator: Operator, blows: Iterator[Planned]) -> None:
        self._fleet, self._server, self._operator = fleet, server, operator
        self._coming = list(blows)
        self._next = time.monotonic()
        self._thaw: dict[subprocess.Popen[bytes], float] = {}
        self._leaving: dict[subprocess.Popen[bytes], float] = {}
        self._struck: set[int] = set()
        self.dealt: Counter[str] = Counter()
        self.fell: list[str] = []

    @property
    def over(self) -> bool:
        """No blow is left, and none is still felt."""
        return not (self._coming or self._thaw or self._leaving)

    def tend(self) -> None:
        """Start what is missing and kill what does not end, as a supervisor; thaw what was frozen long enough."""
        now = time.monotonic()
        for process in [process for process, at in self._thaw.items() if at < now]:
            blows.thaw([process])
            del self._thaw[process]
        for process in [process for process, at in self._leaving.items() if process.poll() is not None or at < now]:
            blows.kill([process])
            del self._leaving[process]
        for role, wanted in FLEET.items():
            for process in self._fleet.processes.get(role, []):
                if process.poll() is not None and process.pid not in self._struck:
                    self._struck.add(process.pid)
                    if process.returncode != ExitCode.STORE_UNREACHABLE or self._fleet.is_ready(process):
                        self.fell.append(f"{role} ended by itself with {process.returncode}")
            self._fleet.start(role, wanted - len(self._staying(role)))

    def strike(self) -> None:
        """The next blow, if its time has come and the fleet has got up from the one before."""
        if self._coming and time.monotonic() > self._next and all(map(self._up, FLEET)):
            planned = self._coming.pop(0)
            self._deal(planned)
            self._next = time.monotonic() + planned.pause_s

    def _deal(self, planned: Planned) -> None:
        blow, role = planned.blow, planned.role
        self.dealt[str(blow) if blow is Blow.STORE else f"{blow} {role}"] += 1
        if blow is Blow.STORE:
            return blows.restart(self._server, self._operator)
        staying = self._staying(role)
        victim = staying[int(planned.which * len(staying))]
        if blow is Blow.FROZEN:
            blows.stall([victim])
            self._thaw[victim] = time.monotonic() + planned.frozen_s
            return None
        self._thaw.pop(victim, None)
        self._struck.add(victim.pid)
        if blow is Blow.SIGKILL:
            return blows.kill([victim])
        blows.thaw([victim])
        victim.terminate()
        self._leaving[victim] = time.monotonic() + blows.STOP_S
        return None

    def _up(self, role: str) -> bool:
        return role == "front" or any(map(self._fleet.is_ready, self._staying(role)))

    def _staying(self, role: str) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._fleet.alive(role) if process not in self._leaving]
