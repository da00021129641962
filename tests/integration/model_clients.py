"""A model client against the scripted server, for the tests of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermes_tasks.agent.model import ModelClient
from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.server import ModelServer, Script
from hermes_tasks.settings import ModelSettings

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
KEY = "plain/0123456789abcdef"


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@dataclass
class Asked:
    """What one call gave: the step, and the text pieces in the order they came."""

    step: ModelStep
    pieces: list[str]


class Probe:
    """A client and what its watcher saw."""

    def __init__(self, client: ModelClient) -> None:
        self.client = client
        self.pieces: list[str] = []

    async def ask(self, model: str = "default", **fields: Any) -> ModelStep:
        self.pieces.clear()

        async def keep(text: str) -> None:
            self.pieces.append(text)

        return await self.client.ask(request(model, **fields), keep)


def settings(base_url: str, **fields: Any) -> ModelSettings:
    return ModelSettings.model_validate({"base_url": base_url, "api_key": KEY, "model": "gpt-test", **fields})


def request(model: str = "default", **fields: Any) -> ModelRequest:
    fields.setdefault("messages", [{"role": "user", "content": "hello"}])
    fields.setdefault("timeout_s", 20.0)
    return ModelRequest(model=model, **fields)


@asynccontextmanager
async def probe(**models: ModelSettings) -> AsyncIterator[Probe]:
    client = ModelClient(models, clock=FixedClock())
    try:
        yield Probe(client)
    finally:
        await client.aclose()


async def ask_once(script: Script | Sequence[Reply], **fields: Any) -> Asked:
    """One call to a fresh server with that script; every reply must be used."""
    async with ModelServer(script) as server, probe(default=settings(server.base_url)) as asking:
        step = await asking.ask(**fields)
        server.check()
        return Asked(step, list(asking.pieces))
