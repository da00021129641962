"""One process with one user, on an empty store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.store.world import CONFIG, QUICK, World, worlds


@pytest.fixture
async def world(store_url: str) -> AsyncIterator[World]:
    """A process whose leases are as long as shipped: only a test lets them run out."""
    async with worlds(store_url, CONFIG) as [made]:
        yield made


@pytest.fixture
async def quick(store_url: str) -> AsyncIterator[World]:
    """A process whose leases last 400 ms."""
    async with worlds(store_url, QUICK) as [made]:
        yield made
