"""The import law holds, and it would notice a breach."""

from __future__ import annotations

import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import grimp
import pytest

from tests.arch.tree import PACKAGE, ROOT, imported, python

if TYPE_CHECKING:
    from pathlib import Path

LINT = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LINT], cwd=where, capture_output=True, text=True, timeout=60, check=False)


def test_law_holds() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("safety/breach.py", "import hermes_tasks.store", "The law of layers"),
        ("store/breach.py", "import hermes_tasks.client", "The law of layers"),
        ("breach.py", "", "The law of layers"),
        ("observe/breach.py", "import celery", "Celery and kombu belong to runtime"),
        ("turns/breach.py", "from redis.asyncio import Redis", "Redis belongs to store"),
        ("agent/breach.py", "import openai", "The model client library belongs to agent.model"),
        ("wiring/breach.py", "from fastapi import FastAPI", "The web framework belongs to front"),
    ],
)
def test_law_notices(tmp_path: Path, file: str, line: str, contract: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "hermes_tasks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    breach = tmp_path / "hermes_tasks" / file
    if not breach.parent.is_dir():  # the layer is one module: the breach goes into it
        breach = breach.parent.with_suffix(".py")
    with breach.open("a") as out:
        out.write(f"\n{line}\n")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(row.startswith(contract) and row.rstrip().endswith("BROKEN") for row in result.stdout.splitlines())


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = grimp.build_graph("hermes_tasks", cache_dir=None)
    circle_free = TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    )
    circle_free.prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("celery", "runtime"),
        ("kombu", "runtime"),
        ("billiard", "runtime"),
        ("redis", "store"),
        ("valkey", "store"),
        ("openai", "agent/model"),
        ("fastapi", "front"),
        ("starlette", "front"),
    ],
)
def test_a_foreign_library_has_one_home(library: str, home: str) -> None:
    """Also of those that nobody imports today, which the law itself cannot name."""
    importers = [
        name
        for name, source in python("hermes_tasks").items()
        if any(module.split(".", 1)[0] == library for module in imported(source))
    ]
    assert [name for name in importers if not name.startswith(f"hermes_tasks/{home}")] == []


def test_nothing_imports_what_is_run_by_path() -> None:
    for folder in ("workers", "beat", "config"):
        assert not (ROOT / folder / "__init__.py").exists()
    for name, source in python("hermes_tasks", "tests", "benchmarks").items():
        tops = {module.split(".", 1)[0] for module in imported(source)}
        assert not tops & {"workers", "beat", "config"}, name
