"""What a ``delegate_task`` call asks for: read strictly, with errors that name the item (spec 1.1.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.errors import InvalidRequest

SHAPE: Final = 'tasks must be a list of objects, each {"goal": "what to do", "context": "what the sub-agent must know"}'
LEAF: Final = "leaf"
ORCHESTRATOR: Final = "orchestrator"


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a call.

    Attributes:
        role: ``leaf``, or ``orchestrator`` for a sub-agent that may delegate itself.
        toolsets: asked for by name; None = all it may have.
        note: what was not understood and left aside, for whoever reads the result.
    """

    goal: str
    context: str = ""
    role: str = LEAF
    toolsets: tuple[str, ...] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A whole call: its tasks in order, and whether the caller goes on without waiting for them."""

    tasks: tuple[Task, ...]
    background: bool = False


def read_request(args: Mapping[str, Any], most: int) -> Request:
    """The call as it was meant.

    The limits of a run are the operator's, so fields such as ``max_iterations`` are left aside unread. ``role`` and
    ``toolsets`` beside ``tasks`` hold for every task that names none; ``goal`` and ``context`` do not.

    Args:
        most: more than this many tasks in one call are refused, and nothing is started.

    Raises:
        InvalidRequest: names what was wrong and what is accepted; nothing may be started.
    """
    background = args.get("background")
    if background not in (None, True, False):
        raise InvalidRequest(f"background is {_kind(background)}; give true or false")
    raw = _listed(args.get("tasks"))
    if raw is None:
        goal = args.get("goal")
        if not isinstance(goal, str) or not goal.strip():
            raise InvalidRequest("give a goal (text), or tasks (a list); " + SHAPE)
        raw = [{"goal": goal, "context": args.get("context")}]
    if len(raw) > most:
        raise InvalidRequest(f"{len(raw)} tasks in one call, {most} are allowed; nothing was started. Send fewer")
    common = {name: args.get(name) for name in ("role", "toolsets")}
    return Request(tuple(_task(item, number, common) for number, item in enumerate(raw)), bool(background))


def _listed(value: Any) -> Sequence[Any] | None:
    """The ``tasks`` argument as a list; models sometimes send the list as JSON text, which is unmistakable."""
    if value in (None, "", []):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise InvalidRequest("tasks is text that is not valid JSON; " + SHAPE) from None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and value[0].lstrip().startswith("["):
        return _listed(value[0])
    if not isinstance(value, list):
        raise InvalidRequest(f"tasks is {_kind(value)}; " + SHAPE)
    return value or None


def _task(item: Any, number: int, common: Mapping[str, Any]) -> Task:
    if not isinstance(item, Mapping):
        raise InvalidRequest(f"task {number} is {_kind(item)}; " + SHAPE)
    goal = item.get("goal")
    if not isinstance(goal, str) or not goal.strip():
        raise InvalidRequest(f"task {number} has no goal (a text that is not blank); " + SHAPE)
    role, note = _role(item.get("role") or common["role"])
    wanted = item.get("toolsets") if item.get("toolsets") is not None else common["toolsets"]
    toolsets = _names(wanted, f"toolsets of task {number}")
    return Task(goal.strip(), _text(item.get("context"), f"context of task {number}"), role, toolsets, note)


def _role(value: Any) -> tuple[str, str]:
    if value in (None, "", LEAF, ORCHESTRATOR):
        return value or LEAF, ""
    return LEAF, f"the role {str(value)[:40]!r} is unknown, it ran as a leaf; roles are leaf and orchestrator"


def _names(value: Any, what: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest(f'{what}: give a list of names such as ["terminal", "web"]')
    return tuple(dict.fromkeys(name.strip() for name in value))


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is {_kind(value)}; give text")
    return value.strip()


def _kind(value: Any) -> str:
    names = {str: "text", dict: "an object", list: "a list", bool: "true/false", type(None): "null"}
    return names.get(type(value), "a number")
