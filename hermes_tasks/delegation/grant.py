"""What a child may do: never more than its parent may grant, and never what is blocked for children (spec 1.1.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.delegation.request import ORCHESTRATOR, Task

#: Toolset of the tool that starts children.
DELEGATION: Final = "delegation"
#: Reading back one's own long results is part of every tool, so it is never asked for and never dropped.
_ALWAYS: Final = "results"


@dataclass(frozen=True, slots=True)
class Nesting:
    """How deep sub-agents may start sub-agents.

    Attributes:
        max_depth: a run this deep may not delegate; the front agent is at depth 0.
        orchestrators: False = no child may delegate, however deep the limit.
    """

    max_depth: int = 1
    orchestrators: bool = True

    def refusal(self, depth: int) -> str:
        """Why a run at that depth may not delegate, naming both numbers, or "" if it may."""
        if depth < self.max_depth:
            return ""
        return f"delegation depth reached: this run is at depth {depth}, the limit is {self.max_depth}"


#: No nesting: children of the front agent only.
FLAT: Final = Nesting()


@dataclass(frozen=True, slots=True)
class Grant:
    """The policy of one child, and which of the toolsets it was to have were left out."""

    policy: Policy
    dropped: tuple[str, ...] = ()


def grantable(parent: RunRecord, child: Policy) -> tuple[str, ...]:
    """The toolsets a child of ``parent`` may have: those of children, below the front agent only its own of them."""
    if parent.kind is RunKind.TURN:
        return child.toolsets
    return tuple(name for name in child.toolsets if name in parent.policy.toolsets)


def grant(parent: RunRecord, child: Policy, task: Task, nesting: Nesting) -> Grant:
    """What this task's child gets: the intersection of what it asks for with what its parent may grant.

    An orchestrator may delegate in its turn if the depth allows; else it runs as a leaf, as the peer does.
    """
    allowed = grantable(parent, child)
    wanted = allowed if task.toolsets is None else task.toolsets
    toolsets = [name for name in allowed if name in wanted or name == _ALWAYS]
    depth = parent.depth + 1
    refusal = nesting.refusal(depth)
    if not refusal and not (task.role == ORCHESTRATOR and nesting.orchestrators):
        refusal = "this run was started as a leaf, which may not delegate"
    if not refusal:
        toolsets.append(DELEGATION)
    policy = child.model_copy(
        update={"toolsets": tuple(toolsets), "refusals": {DELEGATION: refusal} if refusal else {}}
    )
    return Grant(policy, tuple(name for name in wanted if name not in allowed))
