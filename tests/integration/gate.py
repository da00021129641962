"""Model calls that stop inside until they are let go, one by one."""

from __future__ import annotations

import asyncio

from hermes_tasks.contracts.models import ModelRequest
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.testing.model import said
from tests.integration.composed import goal_of


class Gate:
    """Answers ``answer <goal>`` for whoever was let go.

    Attributes:
        inside: goals (or opening words) of the calls that wait now.
    """

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.free: dict[str, asyncio.Event] = {}

    async def __call__(self, request: ModelRequest) -> ModelStep:
        goal = goal_of(request)
        self.inside.append(goal)
        try:
            await self.free.setdefault(goal, asyncio.Event()).wait()
        finally:
            self.inside.remove(goal)
        return said(f"answer {goal}")

    def let_go(self, goal: str) -> None:
        self.free.setdefault(goal, asyncio.Event()).set()
