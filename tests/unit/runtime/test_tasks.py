"""The task functions: ids in, nothing out, each to its method."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.runtime.app import TASK_PREFIX, App, make_app
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.tasks import bind


class Heard:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def advance(self, user: str, run: str) -> None:
        self.calls.append(("advance", user, run))

    async def drain(self, user: str, session: str, consumer: str) -> None:
        self.calls.append(("drain", user, session, consumer))

    async def deliver(self, user: str, delivery: str) -> None:
        self.calls.append(("deliver", user, delivery))

    async def reindex(self) -> None:
        self.calls.append(("reindex",))


@pytest.fixture
def bound() -> Iterator[tuple[App, Heard]]:
    app, work, bridge = make_app("memory://"), Heard(), LoopBridge()
    bridge.start()
    bind(app, work, bridge)
    yield app, work
    bridge.stop()


@pytest.mark.parametrize("kind", [RunKind.TURN, RunKind.CHILD, RunKind.REVIEW, RunKind.CRON])
def test_a_doorbell_of_a_run_goes_on_with_it(bound: tuple[App, Heard], kind: RunKind) -> None:
    app, work = bound
    assert app.tasks[TASK_PREFIX + str(kind)]("ann", "r1") is None
    assert work.calls == [("advance", "ann", "r1")]


@pytest.mark.parametrize(
    ("task", "args"), [("drain", ("ann", "s1", "builtin")), ("deliver", ("ann", "d1")), ("reindex", ())]
)
def test_the_other_doorbells(bound: tuple[App, Heard], task: str, args: tuple[str, ...]) -> None:
    app, work = bound
    assert app.tasks[TASK_PREFIX + task](*args) is None
    assert work.calls == [(task, *args)]


def test_there_is_no_other_task(bound: tuple[App, Heard]) -> None:
    names = {name for name in bound[0].tasks if not name.startswith("celery.")}
    assert names == {
        TASK_PREFIX + name for name in ("turn", "child", "review", "cron", "drain", "deliver", "reindex")
    }  # fmt: skip
