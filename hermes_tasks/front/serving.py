"""Serving the app: one uvicorn server that ends its event streams when it stops, so that nothing holds it up."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI

from hermes_tasks.front.deps import FrontState
from hermes_tasks.observe.ports import check_port

#: From the signal until requests that still run are cut off; a request waits 2 s for a store at the most.
GRACE_S: Final = 4
_BACKLOG: Final = 1024


class FrontServer(uvicorn.Server):
    """See :func:`serve`; :meth:`stop` ends it from inside the process."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        # Its own log settings are left out: the process has one logger, and requests are logged by the app.
        super().__init__(
            uvicorn.Config(
                app, host=host, port=port, server_header=False, access_log=False, log_config=None, backlog=_BACKLOG,
                timeout_graceful_shutdown=GRACE_S, lifespan="on", ws="none", proxy_headers=False,
            )
        )  # fmt: skip
        self._state: FrontState = app.state.front

    @property
    def port(self) -> int:
        """Where it listens, once it has started."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Begin to stop; a second call does nothing."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the streams to end, then wait for what still runs."""
        self._state.stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop on SIGTERM and SIGINT.

        The original sends the signal to the process again afterwards; here the caller still has services to close.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


async def serve(app: FastAPI, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then take nothing new and finish the requests that run, within 5 s.

    Raises:
        Conflict: the port is taken.
        InvalidRequest: the address cannot be listened on.
    """
    check_port(host, port, "front.port")
    await FrontServer(app, host, port).serve()
