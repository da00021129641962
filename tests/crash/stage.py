"""A fleet whose workers stop at chosen places, its model, and the users whose turns are brought there."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import held, plays
from tests.crash.blows import Processes
from tests.crash.findings import Turn, findings, leftovers
from tests.crash.fleet import Fleet, wait_until
from tests.crash.viewer import Operator

ROLES = ("turns", "delegation")


class Stage:
    """One worker of each of two roles, and what is asked of them. Each user has one turn, named like the user."""

    def __init__(
        self, server: EmbeddedServer, model: ModelServer, cast: plays.Cast, fleet: Fleet, operator: Operator
    ) -> None:
        self.server, self.model, self.cast, self.fleet, self.operator = server, model, cast, fleet, operator
        self.holds = fleet.root / "holds"
        self.holds.mkdir()

    def start_workers(self) -> None:
        for role in ROLES:
            self.fleet.start(role, command=[held.__file__, role, str(self.holds)])

    def workers(self) -> list[subprocess.Popen[bytes]]:
        return [process for role in ROLES for process in self.fleet.alive(role)]

    def await_workers(self) -> None:
        wait_until("the workers serve", lambda: all(self.fleet.ready(role) for role in ROLES), 60)

    def begin(self, user: str, tasks: int) -> Turn:
        """Let a new user ask for one delegation."""
        self.operator.add_user(user)
        return Turn(user, "s", self.operator.say(user, "s", plays.message(user, tasks)), user, tasks)

    def record(self, turn: Turn) -> RunRecord:
        return self.operator.record(turn.user, turn.run)

    def over(self, turn: Turn) -> bool:
        return self.record(turn).state.terminal

    def held(self, turn: Turn, by: Processes | None = None) -> int:
        """How many of the turn's runs have stopped at their place, in these processes (None = in any)."""
        names = [path.name.split(".") for path in self.holds.glob(f"{turn.user}.held.*")]
        pids = None if by is None else {str(process.pid) for process in by}
        return sum(pids is None or pid in pids for *_, pid, _ in names)

    def let_go(self, turns: Sequence[Turn], processes: Processes) -> None:
        """Let these processes, and no other, leave the place of these turns."""
        for turn in turns:
            for process in processes:
                (self.holds / f"{turn.user}.open.{process.pid}").touch()

    def stopped(self, turn: Turn, processes: Processes) -> bool:
        """Whether one of these processes learned that a run at its place is not its own any more."""
        return any((self.holds / f"{turn.user}.stopped.{process.pid}").exists() for process in processes)

    def in_flight(self, turn: Turn) -> int:
        """How many calls of the turn and its children the model has not answered."""
        tags = [call.tag for call in self.model.calls if call.outcome == "open"]
        return sum(plays.turn_of(tag) == turn.name for tag in tags)

    def marks(self, turn: Turn) -> list[str]:
        """What the turn's children left in the workspace."""
        path = self.operator.workspace(turn.user, turn.run) / plays.marks(turn.name)
        return path.read_text().split() if path.exists() else []

    def open(self, turns: Sequence[Turn]) -> None:
        """Let everything go on: places, calls and tools."""
        for turn in turns:
            self.cast.open(turn.name)
            (self.holds / f"{turn.user}.open").touch()
            workspace = self.operator.workspace(turn.user, turn.run)
            if workspace.exists():
                (workspace / "go").touch()

    def await_end(self, turns: Sequence[Turn]) -> None:
        wait_until("all turns end", lambda: all(map(self.over, turns)), 60)

    def findings(self, turns: Sequence[Turn]) -> dict[str, list[str]]:
        """By turn: what is wrong once all is quiet. What is left open after 5 s is left for ever."""
        asked = Counter(call.tag for call in self.model.calls)
        found = {}
        for turn in turns:
            wait_until(f"{turn.user} quiet", lambda: not leftovers(self.operator, turn.user), 5)  # noqa: B023
            found[turn.name] = findings(self.operator, asked, turn)
        return found


@contextmanager
def staged(root: Path, cast: plays.Cast, extra: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """A stage of its own below ``root``; its workers are being started."""
    with (
        EmbeddedServer(root / "home") as server,
        ModelServer.threaded(cast.script, tag=plays.tag, keep=100_000) as model,
        Fleet(root, server, model.port, extra) as fleet,
        Operator(fleet.settings) as operator,
    ):
        stage = Stage(server, model, cast, fleet, operator)
        fleet.start("prefetch")  # has no part in this but to sweep: a fleet is never without somebody who does
        stage.start_workers()
        yield stage
