"""The request log of the scripted server: what was asked, when, and how each call ended. Bounded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class LoggedCall:
    """One call to ``/v1/chat/completions``. Times are monotonic seconds, the same for all processes of a machine.

    ``outcome``: ``open`` while it runs, then ``answered``, ``refused`` (a status other than 200),
    ``dropped`` (we broke it off, as the reply said), ``gone`` (the client closed it) or ``failed`` (the script did).
    """

    number: int
    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    request: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    tag: str = ""
    started: float = 0.0
    ended: float | None = None
    outcome: str = "open"

    def as_json(self) -> dict[str, Any]:
        """For ``/_log``: without headers, which may hold a key, and without the doubled request."""
        shown = asdict(self)
        del shown["request"], shown["headers"]
        return shown


class CallLog:
    """The newest ``keep`` calls, the number of all, and how many are open now and were at most."""

    def __init__(self, keep: int) -> None:
        self._calls: deque[LoggedCall] = deque(maxlen=keep)
        self.total = 0
        self.open = 0
        self.peak = 0

    @property
    def calls(self) -> tuple[LoggedCall, ...]:
        """Oldest first. A copy, safe to read from another thread."""
        return tuple(self._calls.copy())

    def begin(self, request: Mapping[str, Any], headers: Mapping[str, str], tag: str) -> LoggedCall:
        """Enter one call."""
        call = LoggedCall(
            number=self.total,
            model=str(request.get("model", "")),
            messages=request.get("messages") or (),
            tools=request.get("tools") or (),
            request=request,
            headers=headers,
            tag=tag,
            started=time.monotonic(),
        )
        self._calls.append(call)
        self.total += 1
        self.open += 1
        self.peak = max(self.peak, self.open)
        return call

    def end(self, call: LoggedCall, outcome: str) -> None:
        """Note how it ended."""
        call.outcome = outcome
        call.ended = time.monotonic()
        self.open -= 1
