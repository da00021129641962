"""The HTTP API as one ASGI app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Response

from hermes_tasks.contracts.errors import StoreUnavailable
from hermes_tasks.front import runs, sessions, things, usage
from hermes_tasks.front.deps import FrontState, State
from hermes_tasks.front.errors import add_error_handlers
from hermes_tasks.front.gate import Gate
from hermes_tasks.front.keys import Keys
from hermes_tasks.front.pressure import Pressure
from hermes_tasks.front.services import FrontServices

__all__ = ["FrontServices", "create_app"]

_HEALTH_S: Final = 2.0


def create_app(services: FrontServices) -> FastAPI:
    """The app over ``services``. While it runs it watches the store's memory."""
    state = FrontState(services, Keys(services.users, services.clock), Pressure(services.store))

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(state.pressure.watch(), name="store-pressure")
        try:
            yield
        finally:
            state.stopping.set()
            watching.cancel()
            await asyncio.wait({watching})

    app = FastAPI(
        title="Hermes Tasks", lifespan=running, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.state.front = state
    add_error_handlers(app)
    app.include_router(sessions.router)
    app.include_router(runs.router)
    app.include_router(things.router)
    app.include_router(usage.router)
    app.add_api_route("/healthz", _health, methods=["GET"])
    app.add_middleware(Gate, max_body_bytes=services.front.max_body_bytes)
    return app


async def _health(state: State, response: Response) -> dict[str, Any]:
    """200 when this front takes work and its store answers, else 503. Open to all, so it says nothing else."""
    well = not state.stopping.is_set()
    if well:
        try:
            async with asyncio.timeout(_HEALTH_S):
                await state.services.store.read(("PING",))
        except (StoreUnavailable, TimeoutError):
            well = False
    response.status_code = 200 if well else 503
    return {"ok": well}
