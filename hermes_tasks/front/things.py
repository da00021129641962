"""Jobs, inbox, memory, and who one is."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from hermes_tasks.contracts.memory import Document
from hermes_tasks.front.bodies import AddJobBody
from hermes_tasks.front.deps import NEW_WORK, PAGE, Limit, State, TheUser
from hermes_tasks.front.shown import job_shown, mail_shown
from hermes_tasks.memory.documents import size

router = APIRouter(prefix="/v1")


@router.post("/jobs", status_code=201, dependencies=NEW_WORK)
async def add_job(state: State, user: TheUser, body: AddJobBody) -> dict[str, Any]:
    """Add a job; the answer says how its schedule was understood."""
    prompt = body.asked(state.services.front.max_message_chars)
    return await state.services.add_job(user.id, body.name, prompt, body.every, body.at)


@router.get("/jobs")
async def jobs(state: State, user: TheUser) -> dict[str, Any]:
    """The user's jobs, the next to fire first; there are never more than ``cron.jobs_per_user``."""
    return {"jobs": [job_shown(job) for job in await state.services.jobs.all(user.id)]}


@router.get("/inbox")
async def inbox(state: State, user: TheUser, limit: Limit = PAGE) -> dict[str, Any]:
    """What was delivered to the user outside a conversation: the newest ``limit``, oldest first."""
    return {"inbox": [mail_shown(mail) for mail in await state.services.jobs.mail(user.id, limit)]}


@router.get("/memory")
async def memory(state: State, user: TheUser) -> dict[str, Any]:
    """Both memory documents and how full they are, in characters of the joined text."""
    services = state.services
    limits = {
        Document.MEMORY: services.memory_limits.memory_chars,
        Document.USER: services.memory_limits.user_chars,
    }
    shown = {}
    for name, limit in limits.items():
        document = await services.memory.document(user.id, name)
        chars = size(document.entries)
        shown[str(name)] = {"entries": list(document.entries), "chars": chars, "limit_chars": limit}
    return shown


@router.get("/me")
async def me(user: TheUser) -> dict[str, Any]:
    """Whose key this is."""
    return {"user": user.id, "state": user.state, "zone": user.zone, "language": user.language}
