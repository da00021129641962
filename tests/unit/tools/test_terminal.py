"""What the terminal does where a layer of its sandbox is missing; what it does where none is: tests/integration."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hermes_tasks.contracts.runs import Policy
from hermes_tasks.contracts.steps import ToolCall
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.tools.registry import Registry, Resolved
from hermes_tasks.tools.sandbox.layers import Layer, Sandbox, sandbox
from hermes_tasks.tools.sandbox.started import bare_python
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.toolsets import terminal_tools
from hermes_tasks.wiring.sandbox import may_run_commands, tell_of_sandbox
from tests.integration.tool_calls import call

POLICY = Policy(iterations=1, deadline_s=1, toolsets=("terminal",))
HOLDS = Layer("calls", True, True, "fine")
MISSING = Layer("files", False, True, "no such thing; buy one")
SPARED = Layer("namespaces", False, False, "not here")


def terminal(*layers: Layer) -> Terminal:
    return Terminal(timeout_s=5, output_chars=1000, layers=lambda **_: Sandbox(layers))


@pytest.mark.anyio
async def test_a_missing_layer_takes_the_tool_away_and_a_call_says_why(tmp_path: Path) -> None:
    tool = terminal(HOLDS, MISSING, SPARED)
    registry = Registry([tool])
    assert registry.offered(POLICY) == ()
    resolved = registry.resolve(ToolCall(id="c", name="terminal", arguments='{"command": "touch x"}'), POLICY)
    assert isinstance(resolved, Resolved)
    output = await call(tool, tmp_path, resolved.args)
    assert output.error
    assert output.content == ("not run: this machine lacks a layer of the sandbox: files: no such thing; buy one")
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - what a test looks at may block it


def test_a_layer_that_nobody_needs_changes_nothing() -> None:
    assert [schema["name"] for schema in Registry([terminal(HOLDS, SPARED)]).offered(POLICY)] == ["terminal"]


def test_no_sandbox_must_be_asked_for() -> None:
    (tool,) = terminal_tools(ToolSettings(sandbox="none"))
    assert isinstance(tool, Terminal)
    assert tool.available
    assert "no network" not in tool.schema()["description"]
    assert ToolSettings().sandbox == "auto"
    assert not ToolSettings().terminal_network


def test_the_network_is_told() -> None:
    (closed,) = terminal_tools(ToolSettings())
    (opened,) = terminal_tools(ToolSettings(terminal_network=True))
    assert "no network" in closed.schema()["description"]
    assert "no network" not in opened.schema()["description"]


def test_every_layer_says_what_it_is_or_what_is_to_be_done() -> None:
    found = sandbox()
    assert {"files", "calls"} < {layer.name for layer in found.layers}
    assert all(layer.says for layer in found.layers)
    assert all("; " in layer.says for layer in found.missing)
    assert sandbox() is found, "tried once"


def test_only_roles_that_run_commands_look_at_the_sandbox() -> None:
    assert may_run_commands("delegation")
    assert may_run_commands("cron")
    assert not any(may_run_commands(role) for role in ("turns", "review", "memory"))


def test_no_sandbox_is_loud() -> None:
    with capture_logs() as lines:
        tell_of_sandbox(ToolSettings(sandbox="none"))
    assert [(line["log_level"], "WITHOUT A SANDBOX" in line["event"]) for line in lines] == [("warning", True)]


@pytest.mark.parametrize("module", ["hermes_tasks.tools.runner", "hermes_tasks.tools.sandbox.probe"])
def test_what_starts_bare_needs_nothing_but_python(module: str) -> None:
    done = subprocess.run([*bare_python(module)], input="", capture_output=True, text=True, env={}, check=False)
    assert "ModuleNotFoundError" not in done.stderr


def test_the_runner_loads_little() -> None:
    """It starts for every command; each of these would cost as much as all it does."""
    code = "import sys; sys.path.append(sys.argv[1]); import hermes_tasks.tools.runner; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(Path(__file__).parents[3])],
        capture_output=True,
        text=True,
        env={},
        check=True,
    )
    assert {"json", "re", "typing", "pathlib", "subprocess", "dataclasses"}.isdisjoint(done.stdout.split())


def test_a_layer_is_found_where_the_kernel_has_it() -> None:
    """Else a fault of ours would only take the tool away, and the tests of the sandbox with it."""
    facts = {
        "files": ctypes.CDLL(None).syscall(444, None, 0, 1) > 0,
        "calls": os.uname().machine in ("x86_64", "aarch64"),
    }
    if shutil.which("unshare"):
        own = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-mpnif", "--mount-proc", "true"]
        facts["namespaces"] = subprocess.run(own, capture_output=True, check=False).returncode == 0
    held = {layer.name: layer.holds for layer in sandbox().layers}
    assert {name: held[name] for name in facts} == facts
