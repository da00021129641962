"""Our worker as shipped, with a body in the drain and a model in the process: ``ours.py <role> <slots> <body ms>``.

``BENCH_MODEL_S`` is how long that model takes; ``BENCH_REAL_MODEL`` keeps the real client and the configured endpoint.
"""

from __future__ import annotations

import asyncio
import os
import sys

from celery import signals

from hermes_tasks.contracts.memory import Entry
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.steps import ModelStep, Usage
from hermes_tasks.memory.drain import remembered
from hermes_tasks.wiring.worker import Parts, run_worker


class TimedModel:
    """Answers after so many seconds."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    async def ask(self, _request: ModelRequest, on_text: OnText | None = None) -> ModelStep:
        if self._takes_s:
            await asyncio.sleep(self._takes_s)
        if on_text is not None:
            await on_text("done")
        return ModelStep(text="done", usage=Usage(input_tokens=1, output_tokens=1, calls=1))

    def context_tokens(self, _model: str) -> int:
        return 128_000


def main(role: str, slots: str, body_ms: str) -> None:
    async def render(entry: Entry) -> str | None:
        if float(body_ms):
            await asyncio.sleep(float(body_ms) / 1000)
        return remembered(entry)

    real = "BENCH_REAL_MODEL" in os.environ
    model = None if real else TimedModel(float(os.environ.get("BENCH_MODEL_S", "0")))

    @signals.worker_ready.connect(weak=False)
    def ready(**_: object) -> None:
        sys.stdout.write(os.environ["BENCH_READY"] + "\n")
        sys.stdout.flush()

    run_worker(role, int(slots), parts=Parts(model=model, render=render))


if __name__ == "__main__":
    main(*sys.argv[1:])
