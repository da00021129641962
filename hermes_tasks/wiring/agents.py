"""Joins what executes runs: strategies, one tool registry, the model client, the runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from hermes_tasks.agent.loop import Surroundings
from hermes_tasks.agent.model import ModelClient
from hermes_tasks.agent.runner import Runner
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.models import ModelPort
from hermes_tasks.contracts.prompt import PromptSection
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.tools import AnyTool
from hermes_tasks.cron.strategy import CronStrategy
from hermes_tasks.delegation.grant import Nesting
from hermes_tasks.delegation.results import BatchResults
from hermes_tasks.delegation.strategy import ChildStrategy
from hermes_tasks.delegation.tool import DelegateTask, Limits
from hermes_tasks.memory.prefetch import Prefetch, fence
from hermes_tasks.memory.prompt import read_sections
from hermes_tasks.memory.recall import BuiltinRecall
from hermes_tasks.memory.tool import MemoryTool
from hermes_tasks.review.strategy import ReviewStrategy
from hermes_tasks.settings import Settings
from hermes_tasks.tools.registry import Registry
from hermes_tasks.tools.results import ReadResult
from hermes_tasks.tools.toolsets import file_tools, terminal_tools, web_tools
from hermes_tasks.tools.workspace import Workspaces
from hermes_tasks.turns.strategy import TurnStrategy
from hermes_tasks.wiring.admission import day_budget, make_admission
from hermes_tasks.wiring.base import Base, policies

#: Toolsets that work on the files of a workspace.
_ON_FILES: Final = frozenset({"file", "terminal"})


class Agents:
    """Everything that one process needs to execute runs of any kind.

    Args:
        model: answers in place of the configured models; None = the configured ones.
    """

    def __init__(self, base: Base, *, model: ModelPort | None = None) -> None:
        settings = base.settings
        self._base = base
        self._limits = {
            Document.MEMORY: settings.memory.memory_chars,
            Document.USER: settings.memory.user_chars,
        }
        self._client = ModelClient(settings.models.named, clock=base.clock)
        self._admission = make_admission(base)
        self.workspaces = Workspaces(settings.workspaces)
        self.recall = Prefetch(
            [BuiltinRecall(base.memory, turns_kept=settings.memory.turns_kept)],
            deadline_s=settings.memory.prefetch_timeout_s,
        )
        self.results = BatchResults(base.runs, max_summary_chars=settings.delegation.max_summary_chars)
        self.registry = Registry(self._tools(settings))
        offered = self.registry.offered
        self.runner = Runner(
            strategies=(
                TurnStrategy(
                    base.sessions, offered, self._sections, self._recalled, self._now_words, self._results_text
                ),
                ChildStrategy(offered, self.workspaces.path_of, nesting(settings)),
                ReviewStrategy(base.sessions, offered),
                CronStrategy(offered, self._sections, self._now_words),
            ),
            runs=base.runs,
            model=model or self._client,
            registry=self.registry,
            workspace=self._workspace,
            around=Surroundings(spill=base.runs, admission=self._admission, budget=day_budget(settings)),
        )

    def _tools(self, settings: Settings) -> Sequence[AnyTool]:
        return (
            DelegateTask(
                self._base.runs,
                policies(settings)[str(RunKind.CHILD)],
                Limits(
                    max_tasks=settings.delegation.max_tasks,
                    at_once=settings.windows.children_per_parent,
                    wait_s=settings.delegation.wait_s,
                    nesting=nesting(settings),
                ),
                self.results,
            ),
            MemoryTool(self._base.memory, self._limits),
            ReadResult(self._base.runs),
            *file_tools(),
            *terminal_tools(settings.tools),
            *web_tools(settings.tools),
        )

    def _workspace(self, record: RunRecord) -> Path:
        """Made only for runs whose tools use it: turns and reviews leave no empty directories."""
        uses = not _ON_FILES.isdisjoint(record.policy.toolsets)
        return self.workspaces.made_for(record) if uses else self.workspaces.path_of(record)

    async def _sections(self, user: str) -> Sequence[PromptSection]:
        return await read_sections(self._base.memory, user, self._limits)

    async def _recalled(self, user: str, session: str, text: str) -> str:
        found = await self.recall.prefetch_all(text, user=user, session=session)
        return fence(found) if found else ""

    async def _results_text(self, user: str, batch: str) -> str:
        return await self.results.text(await self._base.runs.batch(user, batch), None)

    async def _now_words(self, user: str) -> str:
        zone = (await self._base.users.get(user)).zone
        now = self._base.clock.now().astimezone(ZoneInfo(zone))
        return f"{now:%A, %Y-%m-%d %H:%M} in {zone}"

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._admission.aclose()
        await self._client.aclose()


def nesting(settings: Settings) -> Nesting:
    """How deep sub-agents may start sub-agents."""
    return Nesting(settings.delegation.max_spawn_depth, settings.delegation.orchestrators)
