"""Questions to a process that just started: do you listen, are you well?"""

from __future__ import annotations

import http.client
import socket
from typing import Final

_TIMEOUT_S: Final = 2.0


def listening(host: str, port: int) -> bool:
    """True when a connection to ``host:port`` is accepted."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_S):
            return True
    except OSError:
        return False


def http_ok(host: str, port: int, path: str) -> bool:
    """True when ``GET path`` is answered with 200; proxies of the environment are not used."""
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
