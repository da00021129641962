"""Connections that let a cancellation through.

redis-py sends every command inside ``asyncio.wait_for``. On Python 3.11 that swallows a cancellation which arrives in
the moment the sending ends: a task cancelled once, as the sweeper is at an orderly stop, would go on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError


class _Sending(AbstractConnection):
    async def send_packed_command(
        self,
        command: bytes | str | Iterable[bytes],
        check_health: bool = True,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> None:
        """Send it, connecting first if need be; whatever stops the sending closes the connection."""
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()  # type: ignore[no-untyped-call]
        if isinstance(command, str):
            command = command.encode()
        sent = False
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command([command] if isinstance(command, bytes) else command)
            sent = True
        except TimeoutError:
            raise RedisTimeoutError("timeout while writing to the store") from None
        except OSError as error:
            raise RedisConnectionError(f"while writing to the store: {error}") from error
        finally:
            if not sent:
                await self.disconnect(nowait=True)


class PlainConnection(_Sending, Connection):
    """For ``redis://``."""


class TlsConnection(_Sending, SSLConnection):
    """For ``rediss://``."""
