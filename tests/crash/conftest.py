"""One scripted model server and one store per test; processes are the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_tasks.testing.server import EmbeddedServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A store of this test's own: it will be killed."""
    with EmbeddedServer(tmp_path / "home") as embedded:
        yield embedded


@pytest.fixture(scope="session")
def rounds() -> int:
    """How often a kill is repeated: a few times in CI, ``make soak`` sets CRASH_REPEATS."""
    return int(os.environ.get("CRASH_REPEATS", "1"))
