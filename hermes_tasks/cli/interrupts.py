"""SIGINT, SIGTERM and SIGHUP as one thing: stop in order."""

from __future__ import annotations

import signal
from types import FrameType


def stop_on_signals() -> None:
    """The first SIGINT, SIGTERM or SIGHUP becomes a KeyboardInterrupt; later ones do not disturb the stopping."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
