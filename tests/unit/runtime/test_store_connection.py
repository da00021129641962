"""A cancellation that meets the end of a sending goes through: else an orderly stop could wait for ever."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hermes_tasks.store.client import connect
from hermes_tasks.store.connection import PlainConnection, TlsConnection
from hermes_tasks.testing.waiting import eventually

pytestmark = pytest.mark.anyio


class OpenConnection(PlainConnection):
    """A connection that is there, and whose sending takes as long as the test says."""

    def __init__(self, timeout_s: float = 30.0) -> None:
        super().__init__(socket_timeout=timeout_s)
        self.sending = asyncio.get_running_loop().create_future()
        self.sent: list[bytes] = []
        self.closed = 0

    @property
    def is_connected(self) -> bool:
        return True

    async def _send_packed_command(self, command) -> None:
        self.sent.extend(command)
        await self.sending

    async def disconnect(self, nowait: bool = False, **_: object) -> None:
        self.closed += 1


async def begun(connection: OpenConnection) -> asyncio.Task[None]:
    task = asyncio.create_task(connection.send_packed_command(b"PING"))
    await eventually(lambda: connection.sent)
    return task


async def test_cancelled_in_the_moment_the_sending_ends() -> None:
    connection = OpenConnection()
    task = await begun(connection)
    connection.sending.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.closed == 1, "a reply may be on its way that nobody will read"


async def test_sent_whole() -> None:
    connection = OpenConnection()
    task = await begun(connection)
    connection.sending.set_result(None)
    await task
    assert (connection.sent, connection.closed) == ([b"PING"], 0)


async def test_what_stops_the_sending_closes_the_connection() -> None:
    late = OpenConnection(timeout_s=0.01)
    with pytest.raises(RedisTimeoutError):
        await late.send_packed_command(b"PING")
    broken = OpenConnection()
    broken.sending.set_exception(ConnectionResetError("reset by peer"))
    with pytest.raises(RedisConnectionError, match="reset by peer"):
        await broken.send_packed_command(b"PING")
    assert (late.closed, broken.closed) == (1, 1)


async def test_clients_are_made_of_such_connections() -> None:
    for url, kind in (("redis://127.0.0.1:1/0", PlainConnection), ("rediss://127.0.0.1:1/0", TlsConnection)):
        client = connect(url)
        assert client.connection_pool.connection_class is kind
        await client.aclose()
