"""``hermes-tasks health``: what an operator must put right, and what stands between commands and this machine."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from hermes_tasks.cli.errors import ExitCode, told_in_one_line
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from hermes_tasks.settings.sections import ToolSettings


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``off``: it does not hold, and nobody needs it to."""

    part: str
    state: Literal["ok", "missing", "off"]
    says: str


def health(home: HomeOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Look at the store and at the layers of the sandbox, as they are here and for this user.

    Exit code 1 when something is missing; the last column says what to do. Run it as the user that workers run as.

    Examples:
      hermes-tasks health

      hermes-tasks health --json | jq '.[] | select(.state == "missing")'
    """
    from hermes_tasks.settings import load
    from hermes_tasks.wiring.admin import store_faults

    with told_in_one_line():
        settings = load(home, config)
    faults = asyncio.run(store_faults(settings))
    store = [Finding("store", "missing", fault) for fault in faults] or [Finding("store", "ok", "answers; keeps a log")]
    found = [*store, *_sandbox(settings.tools)]
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        print_table(
            ("part", "state", "what it does, or what to do"),
            ((finding.part, finding.state, finding.says) for finding in found),
            "",
        )
    if any(finding.state == "missing" for finding in found):
        raise SystemExit(ExitCode.FAILED)


def _sandbox(tools: ToolSettings) -> list[Finding]:
    from hermes_tasks.tools.sandbox.layers import sandbox

    if tools.sandbox == "none":
        return [Finding("sandbox", "off", "commands run without it, because tools.sandbox is none")]
    return [
        Finding(f"sandbox: {layer.name}", "ok" if layer.holds else "missing" if layer.needed else "off", layer.says)
        for layer in sandbox(network=tools.terminal_network).layers
    ]
