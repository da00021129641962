"""What a day used, over HTTP."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query

from hermes_tasks.contracts.clock import day_in, next_day
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.front.deps import State, TheUser
from hermes_tasks.front.shown import usage_shown
from hermes_tasks.store.spending import Spending

router = APIRouter(prefix="/v1")


@router.get("/usage")
async def usage(state: State, user: TheUser, day: Annotated[str | None, Query()] = None) -> dict[str, Any]:
    """Tokens and money of one day in the user's zone, by kind of run and model; of today the budget as well."""
    services = state.services
    now = services.clock.now()
    today = day_in(user.zone, now)
    chosen = today if day is None else _checked(day)
    spent = await Spending(services.store).day(user.id, chosen)
    limit = services.budget.daily_tokens
    resets = next_day(user.zone, now).isoformat()
    budget = {"limit": limit, "used": spent.tokens, "reserved": spent.reserved, "resets": resets}
    return {
        "day": chosen,
        "zone": user.zone,
        "rows": [{"kind": row.kind, "model": row.model, **usage_shown(row.usage)} for row in spent.rows],
        "total": usage_shown(spent.total),
        "budget": budget if limit and chosen == today else None,
    }


def _checked(day: str) -> str:
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        raise InvalidRequest(f"no day {day[:40]!r}: write it as YYYY-MM-DD", field="day") from None
