"""A run as others see it: how one is asked for, its record, and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState, WaitReason
from hermes_tasks.contracts.steps import Usage


class Policy(BaseModel):
    """The limits of one run, pinned in its record when it is created.

    Attributes:
        iterations: stored model answers it may use.
        deadline_s: seconds from its first start until it is ``timed_out``.
        queue_deadline_s: seconds it may stay unstarted.
        token_budget: input plus output tokens over all calls; 0 = no limit.
        toolsets: names of the toolsets whose tools are offered *and* accepted.
        memory: ``none``, ``read`` (the blocks are in its prompt) or ``write`` (the tool as well).
        model: name under ``models`` in the settings.
        refusals: why a toolset is missing, by toolset; told when one of its tools is called all the same.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    iterations: int = Field(ge=1)
    deadline_s: int = Field(ge=1)
    queue_deadline_s: int = Field(default=86_400, ge=1)
    token_budget: int = Field(default=0, ge=0)
    toolsets: tuple[str, ...] = ()
    memory: str = "none"
    model: str = "default"
    refusals: dict[str, str] = Field(default_factory=dict)


class NewRun(BaseModel):
    """What is needed to create a run. ``spec`` is the user's data for its strategy (goal, prompt …)."""

    model_config = ConfigDict(frozen=True)

    id: str
    kind: RunKind
    user: str
    session: str = ""
    parent: str = ""
    batch: str = ""
    index: int = 0
    depth: int = 0
    spec: dict[str, Any] = Field(default_factory=dict)
    policy: Policy


class RunRecord(BaseModel):
    """The stored record, without its steps. Times are milliseconds since the epoch, 0 = not yet.

    ``worker`` is the process (host:pid) that claimed it last. ``below`` is what the runs it started have used.
    ``failures`` counts model calls that failed in a row. A paused run waits until ``wake``, for the reason ``why``
    (see :class:`WaitReason`) that holds ``since`` then. ``zone`` is the user's at the claim.
    ``turn``, ``generation`` and ``opening`` (the model's copy of the user's message) are set for turns only.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    id: str
    kind: RunKind
    user: str
    session: str = ""
    parent: str = ""
    batch: str = ""
    index: int = 0
    depth: int = 0
    state: RunState
    fence: int = 0
    attempts: int = 0
    takeovers: int = 0
    steps: int = 0
    created: int = 0
    started: int = 0
    ended: int = 0
    deadline: int = 0
    spec: dict[str, Any] = Field(default_factory=dict)
    policy: Policy
    usage: Usage = Usage()
    below: Usage = Usage()
    failures: int = 0
    wake: int = 0
    why: str = ""
    detail: str = ""
    since: int = 0
    zone: str = "UTC"
    worker: str = ""
    turn: int = 0
    generation: int = 1
    opening: str = ""
    exit_reason: ExitReason | None = None
    result: dict[str, Any] = Field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Seconds from first start to end; 0 while it has not ended or never started."""
        return max(0, self.ended - self.started) / 1000 if self.ended and self.started else 0.0


class Pause(BaseModel):
    """A wait that holds no slot: the run is stored as ``waiting`` until its moment, or until somebody wakes it.

    Attributes:
        detail: for whoever asks why: the model's name, the time of the budget's reset.
        wait_s: at most this long; then the run is queued again and looks again.
        failures: model calls that failed in a row until now.
    """

    model_config = ConfigDict(frozen=True)

    why: WaitReason
    detail: str = ""
    wait_s: float = Field(gt=0)
    failures: int = 0


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The user's tokens of the day do not suffice for the next call.

    Attributes:
        used: tokens of the day that are used.
        reserved: tokens that are set aside for calls of other runs; what these do not use is free again soon.
        resets: when the user's next day begins, in the user's zone.
        resets_in_s: seconds until then.
    """

    used: int
    reserved: int
    limit: int
    resets: datetime
    resets_in_s: float


class Outcome(BaseModel):
    """How the loop left a run: a terminal state, ``waiting`` (stored; no slot is held), or ``queued``.

    ``queued`` means it stopped between two steps because the worker shuts down; the lease is to be given back.
    """

    model_config = ConfigDict(frozen=True)

    state: RunState
    exit_reason: ExitReason | None = None
    text: str = ""
    error: str | None = None
