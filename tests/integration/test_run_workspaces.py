"""Where the tools of a run work, in a composed process: by session, by job, and nowhere when they need no files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import RunKind, RunState
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.cron.firing import Firing
from hermes_tasks.cron.schedule import Schedule
from hermes_tasks.testing.model import called, said
from tests.integration.composed import USER, kind_of, last_user, process, results
from tests.integration.cron_times import ShiftedClock, now_ms, planned

pytestmark = pytest.mark.anyio


def writing(request: ModelRequest) -> Any:
    """A front agent that hands its message on, or answers it alone; a child or job that writes it to ``f``."""
    text = last_user(request).partition("\n")[0].removeprefix("Your task: ")
    if results(request):
        return said(results(request)[-1])
    if kind_of(request) is RunKind.TURN:
        alone = text == "remember"
        return (
            called(("memory", {"target": "user", "action": "add", "content": "likes tea"}))
            if alone
            else called(("delegate_task", {"goal": text}))
        )
    return called(("write_file", {"path": "f", "content": text}))


def files(home: Path) -> dict[str, str]:
    root = home / "workspaces"
    return {str(path.relative_to(root)): path.read_text() for path in root.glob("*/*/*/*") if ".uids" not in path.parts}


async def test_children_work_in_the_directory_of_their_session(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, writing) as one:
        await one.base.sessions.open(USER, "s2")
        await one.turn("remember")
        assert not (tmp_path / "workspaces" / USER).exists()
        await one.turn("one")
        await one.turn("two", session="s2")
        assert files(tmp_path) == {f"{USER}/sessions/s1/f": "one", f"{USER}/sessions/s2/f": "two"}


async def test_a_job_works_in_its_own_directory_at_every_fire(store_url: str, tmp_path: Path) -> None:
    async with process(store_url, tmp_path, writing) as one:
        at = now_ms() - 100
        await planned(one.base, "digest", Schedule(every_s=3600, anchor_ms=at), at)
        assert await Firing(one.base.jobs, ShiftedClock(), one_shot_grace_s=3600).fire_due() == 1
        [fire] = await one.of_kind(RunKind.CRON)
        assert (await one.ended(fire.id)).state is RunState.COMPLETED
        assert list(files(tmp_path)) == [f"{USER}/jobs/digest/f"]
