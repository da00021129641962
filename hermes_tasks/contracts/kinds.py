"""Kinds of run, their states and reasons, the queues, and which belongs to which."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunKind(StrEnum):
    """What a run is for. The kind chooses its queue, its window class, its policy and its strategy."""

    TURN = "turn"
    CHILD = "child"
    REVIEW = "review"
    CRON = "cron"
    CURATION = "curation"


class RunState(StrEnum):
    """``queued → running → (waiting → queued → running)* →`` one of the terminal states."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    EXHAUSTED = "exhausted"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """True when nothing can change the run any more."""
        return self not in (RunState.QUEUED, RunState.RUNNING, RunState.WAITING)


class ExitReason(StrEnum):
    """Why a run reached its terminal state; more exact than the state."""

    COMPLETED = "completed"
    TRUNCATED = "truncated"  # the model's answer was cut at its output limit; the text is kept
    MAX_ITERATIONS = "max_iterations"
    EMPTY_ANSWER = "empty_answer"
    MODEL_ERROR = "model_error"
    REPEATED_FAILURE = "repeated_failure"  # the same mistake over and over
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - a reason, not a secret
    DEADLINE = "deadline"
    QUEUE_DEADLINE = "queue_deadline"
    CANCELLED = "cancelled"
    MAX_ATTEMPTS = "max_attempts"
    INTERNAL_ERROR = "internal_error"  # a fault of ours; the log has the whole story
    RECORD_DAMAGED = "record_damaged"  # the store came back without steps that we know were written


class WaitReason(StrEnum):
    """Why a run is paused: what it waits for beside its own batches."""

    PERMIT = "permit"  # all concurrent calls its model's provider allows are in use
    RATE = "rate"  # the provider's rate limit, or the pause it asked for
    BACKOFF = "backoff"  # the model failed just now
    BUDGET = "budget"  # the user's tokens of the day are used up


class Queue(StrEnum):
    """The Celery queues. Each is served by exactly one worker role."""

    TURNS = "turns"
    DELEGATION = "delegation"
    REVIEW = "review"
    MEMORY = "memory"
    PREFETCH = "prefetch"
    CRON = "cron"
    CURATOR = "curator"
    DELIVERY = "delivery"


QUEUE_OF_KIND: Final[dict[RunKind, Queue]] = {
    RunKind.TURN: Queue.TURNS,
    RunKind.CHILD: Queue.DELEGATION,
    RunKind.REVIEW: Queue.REVIEW,
    RunKind.CRON: Queue.CRON,
    RunKind.CURATION: Queue.CURATOR,
}

#: state → (status, exit_reason) of the peer's result JSON (spec 1.1.5).
PEER_STATUS: Final[dict[RunState, tuple[str, str]]] = {
    RunState.COMPLETED: ("completed", "completed"),
    RunState.FAILED: ("failed", "error"),
    RunState.CANCELLED: ("interrupted", "interrupted"),
    RunState.TIMED_OUT: ("timeout", "timeout"),
    RunState.EXHAUSTED: ("failed", "max_iterations"),
    RunState.LOST: ("error", "error"),
}
