"""Talking to the supervisor over its socket, with a deadline on every call."""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from hermes_tasks.contracts.errors import Retryable

_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class State:
    """One process as the supervisor sees it; ``started`` is a time in seconds, for comparing only."""

    name: str
    full_name: str
    state: str
    pid: int
    started: int


class Supervisor:
    """The few calls that are needed."""

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)

    def states(self) -> list[State] | None:
        """All processes, or None when the supervisor does not answer."""
        try:
            with self._connected() as proxy:
                found = cast("list[dict[str, Any]]", proxy.supervisor.getAllProcessInfo())
        except (OSError, http.client.HTTPException, xmlrpc.client.Error):
            return None
        return [
            State(info["name"], f"{info['group']}:{info['name']}", info["statename"], info["pid"], info["start"])
            for info in found
        ]

    def start(self, full_name: str) -> None:
        """Start one process; does nothing when it is started already.

        Raises:
            Retryable: the supervisor does not answer.
        """
        try:
            with self._connected() as proxy:
                proxy.supervisor.startProcess(full_name, False)
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" not in fault.faultString and "SPAWN_ERROR" not in fault.faultString:
                raise Retryable(f"the supervisor cannot start {full_name}: {fault.faultString}") from None
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise Retryable(f"the supervisor does not answer ({error})") from None

    def _connected(self) -> xmlrpc.client.ServerProxy:
        return xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=_UnixTransport(self._path))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_S)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.close()
            raise


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = _UnixConnection(self._path)
        self._connection = host, connection  # where the base class looks for what it has to close
        return connection
