"""The test's own view of the records, and what its users do, from outside the processes under test."""

from __future__ import annotations

import json
import time
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.settings import Settings
from hermes_tasks.store.keys import user_key
from hermes_tasks.tools.workspace import Workspaces
from hermes_tasks.wiring.base import make_base

T = TypeVar("T")


class Operator:
    """Reads the store and posts messages, synchronously."""

    def __init__(self, settings: Settings) -> None:
        self._bridge = LoopBridge()
        self._bridge.start()
        self.base = self.run(self._make(settings))

    async def _make(self, settings: Settings) -> Any:
        return make_base(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.base.aclose())
        self._bridge.stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine against the store."""
        return self._bridge.run(work)

    def add_user(self, user: str) -> str:
        """Make a user; returns the bearer key."""
        return self.run(self.base.users.add(user))

    def say(self, user: str, session: str, text: str) -> str:
        """Post a message as the front does when it dies right after accepting it; returns the turn's run id."""
        self.run(self.base.sessions.open(user, session))
        return self.run(self.base.sessions.post(user, session, text)).message

    def record(self, user: str, run: str) -> RunRecord:
        """A run's record."""
        return self.run(self.base.runs.get(user, run))

    def fields(self, user: str, run: str) -> dict[str, str]:
        """A run's raw record."""
        return dict(self.run(self.base.runs.fields(user, run)))

    def children(self, user: str, parent: str) -> list[RunRecord]:
        """The children of a run, by index."""
        recent = self.run(self.base.runs.recent(user, 500))
        return sorted((run for run in recent if run.parent == parent), key=lambda run: run.index)

    def history(self, user: str, session: str) -> list[dict[str, Any]]:
        """The session's turns."""
        return self.run(self.base.sessions.history(user, session))

    def workspace(self, user: str, run: str) -> Path:
        """Where the tools of a run work; it may not be there yet."""
        return Workspaces(self.base.settings.workspaces).path_of(self.record(user, run))

    def events(self, user: str, session: str) -> list[tuple[str, dict[str, Any]]]:
        """(type, data) of every event that the session's stream still has."""
        [raw] = self.read(("XRANGE", user_key(user, f"ev:{session}"), "-", "+"))
        return [(fields["type"], json.loads(fields["data"])) for _, fields in raw]

    def read(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Plain commands against the store."""
        return self.run(self.base.store.read(*commands))

    def serving(self, role: str) -> int:
        """How many workers of a role take work now, by their own word."""
        replies = self.base.app.control.ping(timeout=1.0)
        return sum(name.startswith(f"{role}-") for reply in replies for name in reply)

    def unlogged_bytes(self) -> int:
        """What the store has acknowledged and not yet written to its log."""
        info = self.run(self.base.store.redis.info("persistence"))
        return int(info["aof_buffer_length"])

    def now_ms(self) -> int:
        """The clock that the store's server on this machine uses."""
        return int(time.time() * 1000)  # noqa: TID251 - compared with the server's own clock
