"""Whether the process of a container works, run by path: ``python -P config/health.py worker`` or ``beat``.

worker: the Celery worker of this host answers over the broker, so it is connected and takes doorbells.
beat: a scheduler looked for due fires less than half a minute ago.
Exit code 0 = yes. The front and Flower are asked over HTTP instead.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import timedelta

from hermes_tasks.contracts.clock import from_ms
from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.settings import load
from hermes_tasks.wiring.base import Base, make_base

ANSWER_WITHIN_S = 4.0
TICKED_WITHIN = timedelta(seconds=30)


def worker_answers(base: Base) -> bool:
    """The worker on this host answers a ping; its name ends in the host's, which in a container is its own."""
    pattern = f"*@{socket.gethostname()}"
    return bool(base.app.control.ping(timeout=ANSWER_WITHIN_S, limit=1, pattern=pattern, matcher="glob"))


async def beat_ticks(base: Base) -> bool:
    """Some scheduler ticked lately. Any will do: they share the work."""
    try:
        ticked = await base.jobs.last_tick_ms()
    finally:
        await base.aclose()
    return ticked is not None and base.clock.now() - from_ms(ticked) < TICKED_WITHIN


def main() -> int:
    """The exit code."""
    try:
        base = make_base(load())
        if sys.argv[1:] == ["worker"]:
            return 0 if worker_answers(base) else 1
        if sys.argv[1:] == ["beat"]:
            return 0 if asyncio.run(beat_ticks(base)) else 1
    except (HermesTasksError, OSError) as error:
        sys.stderr.write(f"not healthy: {error}\n")
        return 1
    sys.stderr.write("usage: python -P config/health.py worker|beat\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
