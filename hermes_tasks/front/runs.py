"""Runs over HTTP: list, look, cancel."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import StartedStep
from hermes_tasks.front.deps import PAGE, BatchId, Limit, RunId, State, TheUser
from hermes_tasks.front.lines import lines_of
from hermes_tasks.front.shown import run_shown
from hermes_tasks.store.explain import explain
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


@router.get("/runs/{run}/explain")
async def why(state: State, user: TheUser, run: RunId) -> dict[str, Any]:
    """Why a run is where it is: what it waits for, and since when. Also of a message that waits for its turn."""
    record, reasons = await explain(state.services.store, user.id, run)
    return {
        "run": run,
        "state": str(record.state) if record else "inbox",
        "reasons": [asdict(reason) for reason in reasons],
    }


@router.get("/runs/{run}/transcript")
async def transcript(state: State, user: TheUser, run: RunId, after: Annotated[int, Query(ge=0)] = 0) -> dict[str, Any]:
    """What a run said and did, step by step, from step ``after`` on; long texts are cut, secrets are masked."""
    runs = state.services.runs
    record = await runs.get(user.id, run)
    steps = await runs.steps(user.id, run)
    lines = await asyncio.to_thread(lines_of, steps, after)
    return {"run": run, "state": str(record.state), "next": len(steps), "lines": lines}


@router.post("/batches/{batch}/cancel")
async def cancel_batch(state: State, user: TheUser, batch: BatchId) -> dict[str, Any]:
    """End every open child of a delegation. Whoever waits for it gets what there is. A second call changes nothing."""
    return {"batch": batch, "cancelled": await state.services.runs.cancel_batch(user.id, batch)}


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
