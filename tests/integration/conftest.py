"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.sandbox_worker import HOWS, Worker, worker


@pytest.fixture(scope="session", params=HOWS)
def held(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker of the terminal, in each of the ways in which one can run; two users have workspaces."""
    with worker(request.param) as found:
        for user in (found.user, found.other):
            found.run("true", user)
        (found.theirs / "vault").write_text("SECRET-OF-BOB\n")
        (found.theirs / "vault").chmod(0o644)
        yield found
