"""The bridge between Celery's threads and the one event loop of a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from hermes_tasks.runtime.bridge import LoopBridge


@pytest.fixture
def bridge() -> Iterator[LoopBridge]:
    made = LoopBridge()
    made.start()
    yield made
    made.stop()


async def where() -> tuple[int, asyncio.AbstractEventLoop]:
    return threading.get_ident(), asyncio.get_running_loop()


def test_work_of_any_thread_runs_in_the_one_loop(bridge: LoopBridge) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: bridge.run(where()), range(40)))
    assert found == {(bridge.thread_id, bridge.loop)}


def test_work_runs_side_by_side(bridge: LoopBridge) -> None:
    together = asyncio.Barrier(20)

    async def meet() -> None:
        await together.wait()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: bridge.run(meet()), range(20), timeout=10))


def test_what_the_work_raises_reaches_the_caller(bridge: LoopBridge) -> None:
    async def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bridge.run(fail())


def test_it_refuses_to_be_called_from_its_own_loop(bridge: LoopBridge) -> None:
    """Waiting there would wait for itself. The refused work is closed, not left unawaited."""
    refused: list[str] = []

    async def inner() -> None:
        refused.append("ran")

    async def outer() -> None:
        with pytest.raises(RuntimeError, match="from its own loop"):
            bridge.run(inner())

    bridge.run(outer())
    assert refused == []


def test_stopping_cancels_what_is_at_work_and_lets_it_clean_up() -> None:
    bridge = LoopBridge()
    bridge.start()
    began, cleaned = threading.Event(), []

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bridge.run, work())
        assert began.wait(5)
        bridge.stop()
        with pytest.raises(CancelledError):
            running.result(5)
    assert cleaned == ["up"]
    assert bridge.loop.is_closed()
    bridge.stop()


def test_one_that_never_started_can_be_stopped() -> None:
    bridge = LoopBridge()
    bridge.stop()
    assert bridge.loop.is_closed()
