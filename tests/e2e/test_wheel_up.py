"""``hermes-tasks up`` as whoever installs the wheel runs it: no checkout, an empty directory, the README's client."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

from hermes_tasks.contracts.home import Home
from tests.arch.tree import ROOT, build_wheel
from tests.e2e.commands import Up, at_work, clean_environment

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]  # alone: it starts every process there is

#: Where the dependencies of the running interpreter lie; a checkout that is installed there in place is not seen so.
DEPENDENCIES = sysconfig.get_path("purelib")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A fresh environment with nothing but the wheel in it."""
    venv, python = tmp_path / "venv", tmp_path / "venv" / "bin" / "python"
    wheel = build_wheel(tmp_path)
    for command in (
        [sys.executable, "-m", "venv", venv],
        [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=100, env=clean_environment())
    return venv


def snippet(up: Up) -> str:
    """The README's Python, for this address and this key."""
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    for written, ours in (("http://127.0.0.1:8642", up.url), ("your-bearer-key", up.key)):
        assert text.count(written) == 1
        text = text.replace(written, ours)
    return text


def readable_by_others(home: Home) -> list[Path]:
    """What of the secrets, the data and the logs is not its owner's alone."""
    private = (home.secrets, home.store, home.run, home.logs, *home.secrets.iterdir())
    return [path for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_up_from_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    home, empty = tmp_path / "home", tmp_path / "empty"
    empty.mkdir()
    with Up(home, {"PYTHONPATH": DEPENDENCIES}, program=[str(installed / "bin" / "hermes-tasks")], cwd=empty) as up:
        assert list(up.addresses) == ["front", "flower", "model", "data"]
        family = up.family()
        commands = [" ".join(process.cmdline()) for process in family]
        assert [command for command in commands if str(ROOT / "workers") in command] == []
        launched = [
            command for command in commands if f"{installed}/lib/" in command and "/_deploy/workers/" in command
        ]
        assert len(launched) >= len(list((ROOT / "workers").glob("*.py")))
        asked = subprocess.run(
            [installed / "bin" / "python", "-P", "-c", snippet(up)], cwd=empty, capture_output=True, text=True,
            env=clean_environment() | {"PYTHONPATH": DEPENDENCIES}, timeout=60, check=False,
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith("My 3 sub-agents are back:\n1. ")
        assert "[demo model: scripted answers, no AI]" in asked.stdout
        code, took, said = up.interrupt()
    assert (code, said, up.errors.read_text()) == (0, "stopping …\n", "")
    assert took < 10
    assert [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    assert at_work(home) == []
    supervisor = (Home(home).logs / "supervisor.log").read_text()
    assert "SIGKILL" not in supervisor, "everything stopped in order"
    assert readable_by_others(Home(home)) == []
    assert list(empty.iterdir()) == []
