"""Fixtures every test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_tasks.testing.server import EmbeddedServer


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One real store server per test process (so one per xdist worker)."""
    with EmbeddedServer(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def store_url(store_server: EmbeddedServer) -> str:
    """The URL of an empty store, whatever the test before did to it."""
    store_server.thaw()
    store_server.start()
    store_server.flush()
    return store_server.url
