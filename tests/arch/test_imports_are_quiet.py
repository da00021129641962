"""Importing a module does nothing but define names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch.tree import PACKAGE, imported, python

PROBE = Path(__file__).with_name("import_probe.py")


def probe(package: Path, libraries: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROBE), str(package), *libraries],
        cwd=package.parent,
        env={"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.timeout(300)  # a process for each module of the package
def test_every_module_imports_alone_and_quietly() -> None:
    wanted = {name for source in python("hermes_tasks").values() for name in imported(source)}
    ours = {"hermes_tasks", *sys.stdlib_module_names}
    result = probe(PACKAGE, sorted(name for name in wanted if name.split(".", 1)[0] not in ours))
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""


def test_the_probe_hears_noise(tmp_path: Path) -> None:
    package = tmp_path / "noisy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "quiet.py").write_text("import json\n\ndef later():\n    open('x')\n")
    (package / "file.py").write_text("from pathlib import Path\nPath(__file__).read_text()\n")
    (package / "net.py").write_text("import socket\nsocket.socket().close()\n")
    (package / "thread.py").write_text("import threading\nthreading.Thread(target=print, daemon=True).start()\n")
    (package / "broken.py").write_text("import noisy.missing\n")
    result = probe(package, [])
    assert result.returncode == 0, result.stderr
    assert {line.split(":", 1)[0] for line in result.stdout.splitlines()} == {
        "noisy.file",
        "noisy.net",
        "noisy.thread",
        "noisy.broken",
    }
