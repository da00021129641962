"""What the composition root adds: a front's own turns, the first user, and a worker that is closed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hermes_tasks.contracts.errors import StoreUnavailable
from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.observe.ports import free_port
from hermes_tasks.store.home_files import make_home
from hermes_tasks.testing.local_bell import LocalBell
from hermes_tasks.testing.model import said
from hermes_tasks.testing.waiting import eventually
from hermes_tasks.wiring.admin import ensure_user, open_admin
from hermes_tasks.wiring.front import LocalTurns
from hermes_tasks.wiring.worker import Parts, open_worker
from tests.integration.composed import QUICK, SESSION, USER, process, settings_for

pytestmark = pytest.mark.anyio


async def test_a_front_executes_the_turns_that_begin_in_it_without_a_doorbell(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("hello"), keeps=("turn",)) as one:
        turns = LocalTurns(one.worker)
        posted = await one.base.sessions.post(USER, SESSION, "hi", local=True)
        assert posted.begun == posted.message
        turns.start(USER, posted.begun)
        assert (await one.ended(posted.message)).state is RunState.COMPLETED
        assert [ring for ring in one.bell.rung if ring.task == "turn"] == []
        waiting = await one.base.sessions.post(USER, SESSION, "second", local=True)
        turns.start(USER, waiting.begun)
        turns.start(USER, waiting.begun)
        await one.ended(waiting.message)
        assert len(one.model.of(RunKind.TURN)) == 2, "started twice, executed once"


async def test_a_turn_that_stops_in_a_front_is_said_and_left_to_a_worker(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, lambda _: said("hello")) as one:
        with capture_logs() as lines:
            LocalTurns(one.worker).start("nobody", "no-run")
            await eventually(lambda: [line for line in lines if line["log_level"] == "error"])
        [line] = [line for line in lines if line["log_level"] == "error"]
        assert "a worker takes it over" in line["event"]
        assert "no active user 'nobody'" in line["reason"]


async def test_the_first_user_is_made_once_and_its_key_works(store_url: str, tmp_path: Path) -> None:
    settings = settings_for(store_url, make_home(tmp_path / "home").root)
    path = await ensure_user(settings, "me")
    key = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert await ensure_user(settings, "me") == path
    assert path.read_text().strip() == key, "a second call changes nothing"
    async with open_admin(settings) as base:
        assert await base.users.of_key(key) == "me"
        path.unlink()
        await ensure_user(settings, "me")
        other = path.read_text().strip()
        assert other != key
        assert await base.users.of_key(other) == "me"
        path.write_text("ht_forged\n")
        await ensure_user(settings, "me")
        assert path.read_text().strip() not in (key, other, "ht_forged")


async def test_without_a_store_nothing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await ensure_user(settings_for(f"redis://127.0.0.1:{free_port()}/0", tmp_path), "me")


async def test_a_worker_can_be_closed_at_any_moment(store_url: str, tmp_path: Path) -> None:
    """After one more step of the loop each time, so through all of a sweep; a cancellation lost there would hang."""
    for steps in range(40):
        worker = open_worker(settings_for(store_url, tmp_path, **QUICK), parts=Parts(bell=LocalBell()), runs=False)
        await worker.start()
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await worker.aclose()
