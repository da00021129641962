"""What a user may read of each record. Internals (openings, steps, recalled blocks) have no way through here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import Usage
from hermes_tasks.safety.scrubber import scrub
from hermes_tasks.store.events import Event


def usage_shown(usage: Usage) -> dict[str, Any]:
    """Tokens and money; ``cost`` is null when the price of any call is not known."""
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "calls": usage.calls}
    return {**counted, "cost": usage.cost}


def _both_usages(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A turn's own usage and, below it, that of the runs it started."""
    own, below = Usage.model_validate(stored), Usage.model_validate(stored.get("below") or {})
    return {**usage_shown(own), "below": usage_shown(below)}


def turn_shown(turn: Mapping[str, Any]) -> dict[str, Any]:
    """One turn of a session's history: what was said, and how it ended."""
    origin = turn.get("origin", "user")
    return {
        "turn": turn["turn"],
        "run": turn["run"],
        "state": turn["state"],
        "reason": turn.get("reason"),
        "origin": origin,
        # What the system put in the user's place (results of children, …) are not the user's words.
        "user": turn["user"] if origin == "user" else "",
        "assistant": scrub(turn.get("text") or ""),
        "error": scrub(turn.get("error") or "") or None,
        "usage": _both_usages(turn.get("usage") or {}),
        "at_ms": turn["at"],
    }


def session_shown(record: Mapping[str, str]) -> dict[str, Any]:
    """One session's record."""
    return {
        "session": record["id"],
        "generation": int(record.get("generation", 1)),
        "turns": int(record.get("turns", 0)),
        "open": record.get("open") or None,
        "created_ms": int(record.get("created", 0)),
        "active_ms": int(record.get("active", 0)),
    }


def run_shown(run: RunRecord) -> dict[str, Any]:
    """One run: its state and its numbers, and of its texts only the goal and the error."""
    paused = run.state is RunState.WAITING and run.wake > 0
    return {
        "run": run.id,
        "kind": str(run.kind),
        "state": str(run.state),
        "exit_reason": str(run.exit_reason) if run.exit_reason else None,
        "error": scrub(str(run.result.get("error") or "")) or None,
        "goal": scrub(str(run.spec.get("goal") or "")) or None,
        "session": run.session or None,
        "parent": run.parent or None,
        "batch": run.batch or None,
        "index": run.index,
        "attempts": run.attempts,
        "takeovers": run.takeovers,
        "steps": run.steps,
        "created_ms": run.created,
        "started_ms": run.started or None,
        "ended_ms": run.ended or None,
        "deadline_ms": run.deadline or None,
        "duration_s": run.duration_s,
        "usage": {**usage_shown(run.usage), "below": usage_shown(run.below)},
        # What it is paused for, and until when at the latest.
        "waits_for": (run.why or None) if paused else None,
        "waits_detail": (run.detail or None) if paused else None,
        "waits_until_ms": run.wake if paused else None,
    }


def job_shown(job: Mapping[str, Any]) -> dict[str, Any]:
    """One job with its schedule as it was understood."""
    return {
        "job": job["id"],
        "name": job["name"],
        "prompt": job["prompt"],
        "schedule": job["schedule"],
        "state": job["state"],
        "next_ms": job["next"] or None,
        "created_ms": int(job.get("created", 0)),
    }


def mail_shown(mail: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of the inbox."""
    return {
        "id": mail["id"],
        "job": mail.get("job"),
        "name": mail.get("name") or "",
        "status": mail.get("status"),
        "reason": mail.get("reason"),
        "text": scrub(mail.get("text") or ""),
        "error": scrub(mail.get("error") or "") or None,
        "slot_ms": mail.get("slot") or None,
        "at_ms": mail["at"],
    }


def event_shown(event: Event) -> dict[str, Any]:
    """An event's data. Pieces of text were scrubbed as one stream when they were made; whole texts are here."""
    if event.type == EventType.TEXT:
        return event.data
    shown: dict[str, Any] = _scrubbed(event.data)
    return shown | ({"usage": _both_usages(shown["usage"])} if event.type == EventType.TURN_ENDED else {})


def _scrubbed(value: Any) -> Any:
    match value:
        case str():
            return scrub(value)
        case dict():
            return {name: _scrubbed(inner) for name, inner in value.items()}
        case list():
            return [_scrubbed(inner) for inner in value]
        case _:
            return value
