"""What a worker says about the sandbox of its commands, before the first of them."""

from __future__ import annotations

from hermes_tasks.contracts.kinds import QUEUE_OF_KIND
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.runtime.roles import ROLES
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.sandbox.layers import sandbox
from hermes_tasks.wiring.base import TOOLSETS

_log = get_logger(__name__)


def may_run_commands(role: str) -> bool:
    """Whether runs that this role executes have the toolset ``terminal``."""
    queues = ROLES[role].queues if role in ROLES else ()
    return any("terminal" in tools and QUEUE_OF_KIND[kind] in queues for kind, tools in TOOLSETS.items())


def tell_of_sandbox(settings: ToolSettings) -> None:
    """Log what an operator must know. Tries the layers, which takes a tenth of a second; later answers are ready."""
    if settings.sandbox == "none":
        _log.warning("commands of the terminal run WITHOUT A SANDBOX, because tools.sandbox is none")
        return
    for layer in sandbox(network=settings.terminal_network).missing:
        _log.warning("the terminal is off: a layer of its sandbox is missing", layer=layer.name, reason=layer.says)
