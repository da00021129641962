"""One registry per process: which tools there are, which a policy offers, and which call may run.

Hiding a tool is not a barrier: every call is checked again here, when it is made.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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

    Raises:
        InvalidRequest: two tools have one name, or a name that models cannot call.
    """

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools: dict[str, AnyTool] = {}
        for tool in tools:
            if not _NAME.fullmatch(tool.name):
                raise InvalidRequest(f"tool name {tool.name!r}: use a-z 0-9 _ and begin with a letter")
            if tool.name in self._tools:
                raise InvalidRequest(f"two tools are named {tool.name}; rename one")
            self._tools[tool.name] = tool

    def offered(self, policy: Policy) -> Sequence[Mapping[str, Any]]:
        """The schemas of the tools that runs under this policy may call, with the limits in force now."""
        return tuple(tool.schema() for tool in self._granted(policy))

    def resolve(self, call: ToolCall, policy: Policy) -> Resolved | ToolOutput:
        """The tool and arguments of a call, or what the model reads when it may not or cannot be run."""
        names = [tool.name for tool in self._granted(policy)]
        tool = self._tools.get(call.name)
        if tool is None or tool.name not in names:
            return ToolOutput(_no_such(call.name, names, known=tool is not None), error=True)
        args = _object(call.arguments)
        if args is None:
            fields = ", ".join(tool.schema().get("parameters", {}).get("properties", {})) or "none"
            text = f"the arguments of {call.name} are not one JSON object, so it was not run. Its fields: {fields}"
            return ToolOutput(text, error=True)
        return Resolved(tool, args)

    def _granted(self, policy: Policy) -> list[AnyTool]:
        return [tool for tool in self._tools.values() if tool.toolset in policy.toolsets]


def _object(text: str | None) -> Mapping[str, Any] | None:
    """The arguments as an object; "" and ``null`` are how models call a tool without any. Nothing is guessed."""
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _no_such(name: str, names: Sequence[str], *, known: bool) -> str:
    offered = ", ".join(names) or "none"
    if known:
        return f"{name} is not available to this run and was not run. Available: {offered}"
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no tool {name[:80]!r}; nothing was run.{hint} Available: {offered}"
