"""The sections of the settings, one class each. ``config/default.toml`` describes every key for operators."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from hermes_tasks.contracts.kinds import Queue, RunKind
from hermes_tasks.settings.search import SearchSettings
from hermes_tasks.settings.types import (
    BrokerUrl,
    Count,
    CountOrNone,
    FullPath,
    Millis,
    Port,
    Seconds,
    Section,
    StoreUrl,
)


class StoreSettings(Section):
    """The records. ``url`` None = the embedded server of the home, on ``port``."""

    url: StoreUrl | None = None
    port: Port = 6390
    max_memory_mb: int = Field(default=1024, ge=16)


class BrokerSettings(Section):
    """The bells. ``url`` None = the store's server, the next database."""

    url: BrokerUrl | None = None


class FrontSettings(Section):
    """The HTTP API. ``admin_key_file`` None = the one of the home."""

    host: str = Field(default="127.0.0.1", min_length=1)
    port: Port = 8642
    admin_key_file: FullPath | None = None
    max_message_chars: Count = 32_000
    max_body_bytes: Count = 1_048_576
    max_waiting_messages: Count = 20


class LeaseSettings(Section):
    """The sole right to advance a run or a channel."""

    length_ms: Millis = 3000
    renew_ms: Millis = 750
    fresh_ms: Millis = 2000

    @model_validator(mode="after")
    def _order(self) -> LeaseSettings:
        if not self.renew_ms < self.fresh_ms < self.length_ms:
            raise ValueError("needs renew_ms < fresh_ms < length_ms")
        return self


class RecoverySettings(Section):
    """The loop that finds what died."""

    sweep_ms: Millis = 500
    ring_again_ms: Millis = 5000
    ring_again_max_ms: Millis = 60_000
    max_attempts: Count = 4


class WindowSettings(Section):
    """How much of each class one user has in flight; the rest waits in the user's backlog."""

    turn: Count = 4
    child: Count = 8
    children_per_parent: Count = 3
    review: Count = 1
    cron: Count = 4
    curation: Count = 1
    drain: Count = 8
    prefetch: Count = 2


class PolicySettings(Section):
    """The limits of one kind of run."""

    iterations: Count
    deadline_s: Count
    queue_deadline_s: Count = 86_400


class TurnPolicy(PolicySettings):
    """One user message until its answer is committed."""

    iterations: Count = 90
    deadline_s: Count = 1800


class ChildPolicy(PolicySettings):
    """One task of a ``delegate_task`` call."""

    iterations: Count = 50
    deadline_s: Count = 900


class ReviewPolicy(PolicySettings):
    """The look back at a committed turn."""

    iterations: Count = 16
    deadline_s: Count = 300


class CronPolicy(PolicySettings):
    """One fire of a job."""

    iterations: Count = 90
    deadline_s: Count = 600


class CurationPolicy(PolicySettings):
    """One look at a user's skills."""

    iterations: Count = 60
    deadline_s: Count = 900


class PoliciesSettings(Section):
    """The limits per kind of run."""

    turn: TurnPolicy = TurnPolicy()
    child: ChildPolicy = ChildPolicy()
    review: ReviewPolicy = ReviewPolicy()
    cron: CronPolicy = CronPolicy()
    curation: CurationPolicy = CurationPolicy()

    def of(self, kind: RunKind) -> PolicySettings:
        """The limits of runs of that kind."""
        policy: PolicySettings = getattr(self, kind.value)
        return policy


class BudgetSettings(Section):
    """What a user may use."""

    daily_tokens: CountOrNone = 0


class DelegationSettings(Section):
    """``delegate_task``."""

    max_tasks: Count = 12
    wait_s: Count = 300
    max_summary_chars: CountOrNone = 24_000
    max_spawn_depth: int = Field(default=1, ge=1, le=5)
    orchestrators: bool = True


class MemorySettings(Section):
    """MEMORY and USER, recall, and the channel's drain."""

    memory_chars: Count = 2200
    user_chars: Count = 1375
    prefetch_timeout_s: Seconds = 8.0
    nudge_every: CountOrNone = 10
    drain_batch: Count = 64
    turns_kept: Count = 1000


class CronSettings(Section):
    """Users' jobs."""

    min_interval_s: Count = 60
    one_shot_grace_s: Count = 3600
    jobs_per_user: Count = 100
    max_timeout_s: Count = 3600


class ToolSettings(SearchSettings):
    """Terminal, file and web; the base class has web search. ``workspaces`` None = the directory of the home."""

    workspaces: FullPath | None = None
    terminal_timeout_s: Count = 180
    terminal_output_chars: Count = 50_000
    terminal_network: bool = False
    sandbox: Literal["auto", "none"] = "auto"
    web_timeout_s: Seconds = 20.0
    web_max_bytes: Count = 2_000_000
    allow_private_addresses: bool = False


class WorkerSettings(Section):
    """One worker role. None = the number in its launcher file."""

    processes: CountOrNone | None = None
    slots: Count | None = None
    events: bool = True


class WorkersSettings(Section):
    """The worker roles; each serves the queue of its name."""

    turns: WorkerSettings = WorkerSettings()
    delegation: WorkerSettings = WorkerSettings()
    review: WorkerSettings = WorkerSettings()
    memory: WorkerSettings = WorkerSettings()
    prefetch: WorkerSettings = WorkerSettings()
    cron: WorkerSettings = WorkerSettings()
    curator: WorkerSettings = WorkerSettings()
    delivery: WorkerSettings = WorkerSettings()

    def of(self, role: Queue | str) -> WorkerSettings:
        """The settings of that role."""
        worker: WorkerSettings = getattr(self, Queue(role).value)
        return worker


class FlowerSettings(Section):
    """The operators' page. ``password_file`` None = the one of the home."""

    enabled: bool = True
    host: str = Field(default="127.0.0.1", min_length=1)
    port: Port = 5555
    user: str = Field(default="admin", pattern=r"^[A-Za-z0-9._-]+$")
    password_file: FullPath | None = None
    max_tasks: Count = 10_000


class DemoSettings(Section):
    """The built-in demo model's server."""

    port: Port = 8643
    delay_s: float = Field(default=0.0, ge=0, le=60)


class LogSettings(Section):
    """What each process says about itself. ``auto`` = console on a terminal, JSON elsewhere."""

    format: Literal["auto", "json", "console"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"
