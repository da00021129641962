"""kombu's Redis transport with one fault closed: a worker survives a broker that restarts while it works.

Celery 5.7 closes a broken connection twice. The second time kombu's channel asks the transport, already detached, for
its connection parameters, and the ``AttributeError`` ends the worker (celery-rules R1; seen here as well, with early
ack and no prefetch, when a message was being acknowledged). The channel therefore keeps the parameters it had.
"""

from __future__ import annotations

from typing import Any

import kombu.transport
from kombu.transport.redis import Channel, Transport


class KeepingChannel(Channel):
    """A channel that can still be closed after its transport was detached."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's signature
        kept: dict[bool, dict[str, Any]] = self.__dict__.setdefault("kept_parameters", {})
        if self.connection.client is None and kept:
            return dict(kept.get(asynchronous) or next(iter(kept.values())))
        kept[asynchronous] = super()._connparams(asynchronous=asynchronous)  # type: ignore[no-untyped-call]
        return dict(kept[asynchronous])


class KeepingTransport(Transport):
    """The Redis transport with that channel."""

    Channel = KeepingChannel


def use_keeping_transport() -> None:
    """Make ``redis://`` and ``rediss://`` URLs of this process use it; a second call changes nothing."""
    for scheme in ("redis", "rediss"):
        kombu.transport.TRANSPORT_ALIASES[scheme] = f"{__name__}:KeepingTransport"
