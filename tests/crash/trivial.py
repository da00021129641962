"""The smallest kind of run: counts to ``n`` in stored steps. Its launcher is a real worker process.

Run by path: ``python trivial.py <url> <broker url> <queue> <log file>``. Every effect is a line in the log file, so
a test can count what was done by whom, also by processes that were killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.contracts.kinds import ExitReason, Queue, RunKind, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.steps import ToolStep
from hermes_tasks.observe.parent import die_with_parent
from hermes_tasks.runtime.app import make_app
from hermes_tasks.runtime.bell import CeleryBell
from hermes_tasks.runtime.bridge import LoopBridge
from hermes_tasks.runtime.tasks import bind
from hermes_tasks.store.channel import Channel
from hermes_tasks.store.client import Store, StoreConfig
from hermes_tasks.store.recovery import Recovery
from hermes_tasks.store.renewer import Renewer
from hermes_tasks.store.runs import Runs

POLICY = Policy(iterations=100, deadline_s=120)

CONFIG = StoreConfig(policies=dict.fromkeys(map(str, RunKind), POLICY), windows={**StoreConfig().windows, "child": 50})


class TrivialWork:
    """Counts, drains and writes down what it did."""

    def __init__(self, url: str, bell: CeleryBell, log: Path) -> None:
        self._store = Store(url, CONFIG)
        self._renewer = Renewer(url, CONFIG)
        self._runs = Runs(self._store, bell, self._renewer)
        self._channel = Channel(self._store, bell, self._renewer)
        self._recovery = Recovery(self._store, bell)
        self._log = log

    async def start(self) -> None:
        self._renewer.start()
        self._sweeping = asyncio.create_task(self._recovery.run())

    def note(self, *words: object) -> None:
        with self._log.open("a") as log:
            log.write(" ".join(map(str, (os.getpid(), *words))) + "\n")

    async def advance(self, user: str, run: str) -> None:
        try:
            journal = await self._runs.claim(user, run)
            if journal is None:
                return
            spec = journal.record.spec
            self.note("claim", run, journal.attempt, len(journal.steps))
            while len(journal.steps) < spec["n"]:
                if spec.get("poison"):
                    os.kill(os.getpid(), signal.SIGKILL)
                await asyncio.sleep(spec.get("pause_s", 0.05))
                await journal.ready()
                index = len(journal.steps)
                await journal.append(ToolStep(call=0, name="count", content=f"{index} {os.getpid()}"))
                self.note("step", run, index)
            await journal.finish(Outcome(state=RunState.COMPLETED, exit_reason=ExitReason.COMPLETED, text="done"))
            self.note("end", run)
        except HermesTasksError as error:
            self.note("stopped", run, type(error).__name__)

    async def drain(self, user: str, session: str, consumer: str) -> None:
        try:
            draining = await self._channel.claim(user, session, consumer, 4)
            while draining is not None:
                await asyncio.sleep(0.01)
                documents = [entry.model_dump_json() for entry in draining.entries]
                if not await self._channel.apply(draining, documents, 4):
                    return
        except HermesTasksError as error:
            self.note("stopped", session, type(error).__name__)

    async def deliver(self, user: str, delivery: str) -> None:
        self.note("deliver", user, delivery)

    async def reindex(self) -> None:
        await self._recovery.reindex()


def main(url: str, broker: str, queues: str, log: str) -> None:
    die_with_parent()
    app = make_app(broker)
    bridge = LoopBridge()
    bridge.start()

    async def compose() -> TrivialWork:
        work = TrivialWork(url, CeleryBell(app), Path(log))
        await work.start()
        return work

    bind(app, bridge.run(compose()), bridge)
    assert set(queues.split(",")) <= set(map(str, Queue))
    app.Worker(
        pool="threads", concurrency=32, queues=queues.split(","), loglevel="WARNING", without_gossip=True,
        without_mingle=True, hostname=f"w{os.getpid()}@%h",
    ).start()  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
