"""One registry per process: which tools there are, which a policy offers, and which call may run.

Hiding a tool is not a barrier: every call is checked again here, when it is made.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.contracts.tools import AnyTool, ToolOutput

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call that may be run: its tool, and its arguments as an object. Each tool checks its own fields."""

    tool: AnyTool
    args: Mapping[str, Any]


class Registry:
    """The tools of one process, by name.

    A tool may have an attribute ``available``. While it is false the tool is not offered, yet a call still reaches it,
    so that it can say what is missing.

    Raises:
        InvalidRequest: two tools have one name, or a name that models cannot call.
    """

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools: dict[str, AnyTool] = {}
        for tool in tools:
            if not _NAME.fullmatch(tool.name):
                raise InvalidRequest(f"tool name {tool.name!r}: use 1 to 64 of a-z 0-9 _ and begin with a letter")
            if tool.name in self._tools:
                raise InvalidRequest(f"two tools are named {tool.name}; rename one")
            self._tools[tool.name] = tool

    def offered(self, policy: Policy) -> Sequence[Mapping[str, Any]]:
        """The schemas of the tools that runs under this policy may call, with the limits in force now."""
        return tuple(tool.schema() for tool in self._offered(policy))

    def resolve(self, call: ToolCall, policy: Policy) -> Resolved | ToolOutput:
        """The tool and arguments of a call, or what the model reads when it may not or cannot be run."""
        tool = self._tools.get(call.name)
        if tool is None or tool.toolset not in policy.toolsets:
            return ToolOutput(self._no_such(call.name, tool, policy), error=True)
        args = _object(call.arguments)
        if isinstance(args, str):
            fields = ", ".join(tool.schema().get("parameters", {}).get("properties", {})) or "none"
            return ToolOutput(f"{call.name} was not run: {args}. Its fields: {fields}", error=True)
        return Resolved(tool, args)

    def _offered(self, policy: Policy) -> list[AnyTool]:
        granted = (tool for tool in self._tools.values() if tool.toolset in policy.toolsets)
        return [tool for tool in granted if getattr(tool, "available", True)]

    def _no_such(self, name: str, tool: AnyTool | None, policy: Policy) -> str:
        names = [tool.name for tool in self._offered(policy)]
        offered = ", ".join(names) or "none"
        if tool is not None:
            reason = policy.refusals.get(tool.toolset)
            why = f": {reason}" if reason else ""
            return f"{name} is not available to this run and was not run{why}. Available: {offered}"
        near = difflib.get_close_matches(name[:80].lower(), names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"there is no tool {name[:80]!r}; nothing was run.{hint} Available: {offered}"


def _object(text: str | None) -> Mapping[str, Any] | str:
    """The arguments as an object, or what is wrong with them. Nothing is guessed.

    "" and ``null`` are how models call a tool without arguments.
    """
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_unambiguous, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        return f"its arguments are not JSON ({error.msg} at character {error.pos + 1} of {len(text)})"
    except UnicodeEncodeError:
        return "its arguments hold half of a surrogate pair, which is no text"
    except (ValueError, RecursionError) as error:
        return f"its arguments cannot be read ({error})"
    if value is None:
        return {}
    return value if isinstance(value, dict) else "its arguments must be one JSON object {…}"


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"field {name[:80]!r} is given twice")
        fields[name] = value
    return fields


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
