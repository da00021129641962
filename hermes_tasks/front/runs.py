"""Runs over HTTP: list, look, cancel."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import StartedStep
from hermes_tasks.front.deps import PAGE, Limit, RunId, State, TheUser
from hermes_tasks.front.shown import run_shown
from hermes_tasks.store.runs import Runs

router = APIRouter(prefix="/v1")


@router.get("/runs")
async def runs(state: State, user: TheUser, limit: Limit = PAGE) -> dict[str, Any]:
    """The user's runs of every kind, the newest first."""
    return {"runs": [run_shown(run) for run in await state.services.runs.recent(user.id, limit)]}


@router.get("/runs/{run}")
async def one_run(state: State, user: TheUser, run: RunId) -> dict[str, Any]:
    """One run, with the children of all its batches in task order."""
    record = await state.services.runs.get(user.id, run)
    children = await _children(state.services.runs, user.id, run)
    return {**run_shown(record), "children": [run_shown(child) for child in children]}


@router.post("/runs/{run}/cancel")
async def cancel(state: State, user: TheUser, run: RunId) -> dict[str, Any]:
    """End a run and everything below it; tells the state it is in. A second call changes nothing."""
    return {"run": run, "state": str(await state.services.runs.cancel(user.id, run))}


async def _children(runs: Runs, user: str, run: str) -> list[RunRecord]:
    found: list[RunRecord] = []
    for step in await runs.steps(user, run):
        if isinstance(step, StartedStep) and step.batch:
            try:
                found += (await runs.batch(user, step.batch)).children
            except NotFound:
                continue  # its records expired a moment before this run's do
    return found
