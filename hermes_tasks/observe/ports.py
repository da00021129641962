"""TCP ports of this machine: is one free, and which one to take."""

from __future__ import annotations

import errno
import random
import socket
from typing import Final

from hermes_tasks.contracts.errors import Conflict, InvalidRequest

#: Below the range from which systems give out ports for outgoing connections. A client that reconnects to a
#: stopped server in that range can be connected to itself, and the server then finds its port taken.
_RANGE: Final = range(10_240, 32_768)
_TRIES: Final = 200


def check_port(host: str, port: int, what: str) -> None:
    """Return if nothing listens on ``host:port``.

    Args:
        what: the setting to change, for the message.

    Raises:
        Conflict: the port is taken.
        InvalidRequest: the address cannot be listened on at all.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: an old connection of a server that is gone does not hold its port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"port {port} on {host} is taken; stop what listens there or set {what}", field=what
            ) from None
        reason = error.strerror or str(error)
        raise InvalidRequest(f"cannot listen on {host}:{port} ({reason}); change {what}", field=what) from None


def free_port(host: str = "127.0.0.1") -> int:
    """A port nothing listens on now. It is not reserved: take it soon.

    Raises:
        Conflict: none was found.
    """
    for port in random.SystemRandom().sample(_RANGE, _TRIES):
        try:
            check_port(host, port, "another port")
        except Conflict:
            continue
        return port
    raise Conflict(f"no free port found on {host} after {_TRIES} tries; stop some servers")


def reachable(host: str) -> str:
    """An address to connect to from this machine, for one that is listened on."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound


def local_url(host: str, port: int) -> str:
    """Where a page that listens there is reached from this machine."""
    name = reachable(host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"
