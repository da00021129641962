"""What a run needs of its worker beside journal and model: the tools, and a place for long results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.contracts.tools import AnyTool, ToolOutput


class Resolved(Protocol):
    """A call that may be run: its tool and its checked arguments."""

    @property
    def tool(self) -> AnyTool:
        """The tool that was called."""
        ...

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments, as the tool's schema wants them."""
        ...


class Registry(Protocol):
    """Which tools there are, and which of them a policy offers and accepts."""

    def offered(self, policy: Policy) -> Sequence[Mapping[str, Any]]:
        """The schemas of the tools that runs under this policy may call."""
        ...

    def resolve(self, call: ToolCall, policy: Policy) -> Resolved | ToolOutput:
        """The tool and arguments of a call, or what the model reads when it may not or cannot be run."""
        ...


class Spill(Protocol):
    """Keeps the whole text of a result that is too long for the model."""

    async def save_long(self, user: str, run: str, name: str, text: str) -> str:
        """Store it and return a pointer by which it can be read. Saved again under one name, it is replaced.

        Args:
            name: of the result within its run.
        """
        ...
