"""The store that tests put under a worker: it meets each script before and after, and there a caller can be cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermes_tasks.store.users import Users
from hermes_tasks.testing.faults import Moment, WatchedStore
from tests.integration.store.world import CONFIG

pytestmark = pytest.mark.anyio


class Watcher:
    """Writes down every moment, and lets nobody pass one of the kind it is told to stop at."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.stop_sent: bool | None = None
        self.stopped = asyncio.Event()

    async def meet(self, moment: Moment) -> None:
        self.moments.append(moment)
        if self.stop_sent is (moment.answer is not None):
            self.stopped.set()
            await asyncio.Event().wait()


@pytest.fixture
async def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
async def users(store_url: str, watcher: Watcher) -> AsyncIterator[Users]:
    store = WatchedStore(store_url, CONFIG, meet=watcher.meet)
    yield Users(store)
    await store.aclose()


async def test_a_script_is_met_before_it_is_sent_and_when_its_answer_is_unseen(users: Users, watcher: Watcher) -> None:
    await users.add("ann")
    before, after = watcher.moments
    assert (before.script, before.user, before.answer) == ("user_put", "ann", None)
    assert (after.script, after.args) == (before.script, before.args)
    assert after.answer is not None
    assert "r" in after.answer


@pytest.mark.parametrize("sent", [False, True])
async def test_a_caller_that_is_cut_off_there_has_written_nothing_or_all(
    users: Users, watcher: Watcher, sent: bool
) -> None:
    watcher.stop_sent = sent
    adding = asyncio.create_task(users.add("ann"))
    await asyncio.wait_for(watcher.stopped.wait(), 5)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    assert [user.id for user in await users.all()] == (["ann"] if sent else [])
