"""What the HTTP API works with. ``wiring`` builds it; nothing in here is made by the front itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_tasks.contracts.clock import Clock, SystemClock
from hermes_tasks.settings.sections import BudgetSettings, FrontSettings, MemorySettings
from hermes_tasks.store.channel import Channel
from hermes_tasks.store.client import Store
from hermes_tasks.store.events import EventReader
from hermes_tasks.store.jobs import Jobs
from hermes_tasks.store.memory import Memory
from hermes_tasks.store.runs import Runs
from hermes_tasks.store.sessions import Sessions
from hermes_tasks.store.users import Users

#: Begins to execute (user, run) in this process and returns at once.
StartTurn = Callable[[str, str], None]


class AddJob(Protocol):
    """Parses a schedule and stores the job."""

    def __call__(
        self, user: str, name: str, prompt: str, every: str | None, at: str | None
    ) -> Awaitable[dict[str, Any]]:
        """The stored job with its parsed meaning and next time.

        Raises:
            InvalidRequest: the schedule cannot be read or is not allowed.
        """
        ...


@dataclass(frozen=True, slots=True)
class FrontServices:
    """Records, limits and the two things only ``wiring`` can do: run a turn here, and read a schedule.

    Whoever made them starts them before, and closes them after, the app runs.
    """

    store: Store
    users: Users
    sessions: Sessions
    runs: Runs
    jobs: Jobs
    memory: Memory
    channel: Channel
    events: EventReader
    start_turn: StartTurn
    add_job: AddJob
    front: FrontSettings = field(default_factory=FrontSettings)
    memory_limits: MemorySettings = field(default_factory=MemorySettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    clock: Clock = field(default_factory=SystemClock)
