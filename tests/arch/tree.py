"""What belongs to the repository, and the wheel that is built of it, for the tests that read them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hermes_tasks"


@cache
def files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())


def named(path: Path) -> str:
    """A path as one reads it: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def texts() -> dict[str, str]:
    """Every committed text file by its name."""
    found = {}
    for path in files():
        data = path.read_bytes()
        if b"\0" not in data:
            found[named(path)] = data.decode()
    return found


def build_wheel(out: Path) -> Path:
    """The wheel, built into ``out`` without a network: the build tool is part of the developer tools."""
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = out.glob("*.whl")
    return found


def python(*tops: str) -> dict[str, str]:
    """The Python files below these top folders, or all of them."""
    return {
        name: text
        for name, text in texts().items()
        if name.endswith(".py") and (not tops or name.split("/", 1)[0] in tops)
    }


def imported(source: str) -> set[str]:
    """Full names of what a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names
