"""What a ``delegate_task`` call asks for: read strictly, with errors that name the item (spec 1.1.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.errors import InvalidRequest

SHAPE: Final = 'tasks must be a list of objects, each {"goal": "what to do", "context": "what the sub-agent must know"}'


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a call."""

    goal: str
    context: str = ""


def read_tasks(args: Mapping[str, Any], most: int) -> list[Task]:
    """The tasks of a call, in order.

    Args:
        most: more than this many in one call are refused, and nothing is started.

    Raises:
        InvalidRequest: names what was wrong and what is accepted; nothing may be started.
    """
    raw = _listed(args.get("tasks"))
    if raw is None:
        goal = args.get("goal")
        if not isinstance(goal, str) or not goal.strip():
            raise InvalidRequest("give a goal (text), or tasks (a list); " + SHAPE)
        return [Task(goal.strip(), _text(args.get("context"), "context"))]
    if len(raw) > most:
        raise InvalidRequest(f"{len(raw)} tasks in one call, {most} are allowed; nothing was started. Send fewer")
    return [_task(item, number) for number, item in enumerate(raw)]


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


def _task(item: Any, number: int) -> Task:
    if not isinstance(item, Mapping):
        raise InvalidRequest(f"task {number} is {_kind(item)}; " + SHAPE)
    goal = item.get("goal")
    if not isinstance(goal, str) or not goal.strip():
        raise InvalidRequest(f"task {number} has no goal (a text that is not blank); " + SHAPE)
    return Task(goal.strip(), _text(item.get("context"), f"context of task {number}"))


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is {_kind(value)}; give text")
    return value.strip()


def _kind(value: Any) -> str:
    names = {str: "text", dict: "an object", list: "a list", bool: "true/false", type(None): "null"}
    return names.get(type(value), "a number")
