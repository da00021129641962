"""The connection to the store, and the one way to run a script on a user's slot.

redis-py resends a command after a broken reply. Here nothing is resent below us (retries are 0); scripts are written
so that a second call changes nothing, and :meth:`Store.call` repeats them itself while the store is away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import redis.asyncio as aredis
from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from hermes_tasks.contracts.clock import Clock, SystemClock, to_ms
from hermes_tasks.contracts.errors import InvalidRequest, StoreFull, StoreUnavailable
from hermes_tasks.contracts.runs import Policy
from hermes_tasks.store import hints
from hermes_tasks.store.connection import PlainConnection, TlsConnection
from hermes_tasks.store.keys import LAYOUT, shard_key, user_key
from hermes_tasks.store.scripts import Script, load_scripts

T = TypeVar("T")

#: How long a caller that can wait (a run under its lease) goes on asking a store that is away.
PATIENT: Final = timedelta(seconds=25)
#: How long a caller with a person behind it does.
BRISK: Final = timedelta(seconds=2)
_CONNECTIONS: Final = 32
_SOCKET_TIMEOUT_S: Final = 5.0
#: The server does not answer, or changes its role just now: the same call may succeed later.
_AWAY: Final = (
    RedisConnectionError, RedisTimeoutError, OSError, ReadOnlyError, MasterDownError, ClusterDownError, TryAgainError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """What the scripts must know of the settings. Passed with every call, so processes need no restart order."""

    lease_ms: int = 3000
    renew_ms: int = 750
    fresh_ms: int = 2000
    sweep_ms: int = 500
    ring_ms: int = 5000
    ring_max_ms: int = 60_000
    max_attempts: int = 4
    keep_s: int = 7 * 86_400
    spend_keep_s: int = 90 * 86_400
    children_per_parent: int = 3
    windows: Mapping[str, int] = field(
        default_factory=lambda: {
            "turn": 4, "child": 8, "review": 1, "cron": 4, "curation": 1, "drain": 8, "prefetch": 2,
        }
    )  # fmt: skip
    policies: Mapping[str, Policy] = field(default_factory=dict)

    @property
    def soon_ms(self) -> int:
        """The earliest that a script wants something looked at that it just changed."""
        return min(self.lease_ms, self.ring_ms)

    def wire(self) -> str:
        """The JSON that lib.lua reads."""
        return json.dumps(
            {
                "lease_ms": self.lease_ms, "ring_ms": self.ring_ms, "ring_max_ms": self.ring_max_ms,
                "sweep_ms": self.sweep_ms, "max_attempts": self.max_attempts, "keep_s": self.keep_s,
                "soon_ms": self.soon_ms, "spend_keep_s": self.spend_keep_s,
                "per_parent": self.children_per_parent, "windows": dict(self.windows),
                "policies": {kind: policy.model_dump_json() for kind, policy in self.policies.items()},
            },
            separators=(",", ":"),
        )  # fmt: skip


def connect(url: str, *, connections: int = _CONNECTIONS) -> aredis.Redis:
    """A client with timeouts of its own and no hidden retries. Blocks when all its connections are in use."""
    pool = aredis.BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=30,
        protocol=2,
        decode_responses=True,
        socket_timeout=_SOCKET_TIMEOUT_S,
        socket_connect_timeout=2.0,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )
    pool.connection_class = TlsConnection if issubclass(pool.connection_class, SSLConnection) else PlainConnection
    return aredis.Redis.from_pool(pool)


class Store:
    """Scripts and reads on the users' slots.

    Args:
        url: ``redis://`` or ``rediss://``, with password.
        config: what the scripts must know of the settings.
        clock: used to estimate the server's time for hints; scripts use the server's own.
    """

    def __init__(self, url: str, config: StoreConfig | None = None, *, clock: Clock | None = None) -> None:
        self.url = url
        self.config = config or StoreConfig()
        self.clock: Clock = clock or SystemClock()
        self.redis = connect(url)
        self._pool = self.redis.connection_pool
        self._wire = self.config.wire()
        self._scripts: Mapping[str, Script] = load_scripts()
        self._skew_ms = 0

    async def aclose(self) -> None:
        """Close every connection. A second call does nothing."""
        await self.redis.aclose()

    def now_ms(self) -> int:
        """The server's time as last seen; exact to the clock drift since the last call."""
        return to_ms(self.clock.now()) + self._skew_ms

    def saw_time(self, server_ms: int) -> None:
        """The server's clock showed this a moment ago."""
        self._skew_ms = server_ms - to_ms(self.clock.now())

    async def call(
        self,
        script: str,
        user: str,
        *args: str | int,
        hint_ms: int | None = None,
        patience: timedelta = BRISK,
    ) -> dict[str, Any]:
        """Run one script on the user's slot and return its answer.

        Args:
            script: name of a file in ``lua/`` without its ending.
            hint_ms: the script may give this user something to be looked at this many ms from now (see ``hints``).
            patience: how long to go on asking while the store is away; each repetition is safe.

        Raises:
            StoreUnavailable: it did not come back in time.
            StoreFull: the store refuses new work at its memory limit.
            InvalidRequest: the user does not exist.
        """
        keys = [user_key(user), self._wire, *(str(arg) for arg in args)]
        hint = None if hint_ms is None else hints.put_in(shard_key(user), user, hint_ms)
        answer = await self._run(script, keys, hint, patience)
        if answer["r"] == "no_user":
            raise InvalidRequest(
                f"there is no active user {user!r}; make one with: hermes-tasks users add", field="user"
            )
        return answer

    async def call_on(self, script: str, key: str, *args: str | int, patience: timedelta = BRISK) -> dict[str, Any]:
        """Run one script on the slot of a key that is no user's, and return its answer.

        Raises:
            StoreUnavailable: it did not come back in time.
        """
        return await self._run(script, [key, *(str(arg) for arg in args)], None, patience)

    async def once(self, send: Callable[[], Awaitable[T]]) -> T:
        """What ``send`` returns; for what must not be repeated, as it counts.

        Raises:
            StoreUnavailable: the store does not answer; whether it counted is not known.
            StoreFull: it refuses a write at its memory limit.
        """
        return await self._patiently(send, timedelta())

    async def _run(
        self, script: str, keys: list[str], hint: tuple[Any, ...] | None, patience: timedelta
    ) -> dict[str, Any]:
        loaded = self._scripts[script]

        async def send() -> str:
            try:
                return await self._send(loaded, keys, hint)
            except NoScriptError:
                for missing in (loaded, self._scripts["hint_put"]):
                    await self.redis.script_load(missing.text)
                return await self._send(loaded, keys, hint)

        answer: dict[str, Any] = json.loads(await self._patiently(send, patience))
        self.saw_time(int(answer["now"]))
        return answer

    async def _patiently(self, send: Callable[[], Awaitable[T]], patience: timedelta) -> T:
        deadline = self.clock.monotonic() + patience.total_seconds()
        pause = 0.05
        while True:
            try:
                return await send()
            except AuthenticationError as error:
                raise StoreUnavailable(f"the store refused our password: {error}") from None
            except _AWAY as error:
                if self.clock.monotonic() + pause >= deadline:
                    raise StoreUnavailable(f"the store does not answer ({error}); is it running?") from None
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.5)
            except OutOfMemoryError:
                raise StoreFull("the store is at its memory limit; raise it or delete data") from None

    async def _send(self, script: Script, keys: list[str], hint: tuple[Any, ...] | None) -> str:
        """Script and hints in one packet. The client's own pipeline costs more than the script it would carry."""
        commands: list[tuple[Any, ...]] = [("EVALSHA", script.sha, 1, *keys)]
        if hint is not None:
            commands = [hint, commands[0], hint]
        connection: AbstractConnection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        answered = False
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            replies = [await _reply(connection) for _ in commands]
            answered = True
        finally:
            if not answered:  # a reply may still be on its way: nobody else must read it
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        for reply in (replies[len(replies) // 2], *replies):
            if isinstance(reply, ResponseError):
                raise reply
        return cast("str", replies[len(replies) // 2])

    async def read(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run plain commands in one round trip: reads, and writes that may be repeated.

        Raises:
            StoreUnavailable: the store does not answer.
            StoreFull: it refuses a write at its memory limit.
        """

        async def send() -> list[Any]:
            async with self.redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(await pipe.execute())

        return await self._patiently(send, BRISK)

    async def check(self) -> list[str]:
        """Look at the store before work begins; returns warnings for the operator, one line each.

        Raises:
            StoreUnavailable: it cannot be reached, or refuses us.
            InvalidRequest: it holds records of a newer version.
        """
        try:
            info = await self.redis.info()
            await self.redis.hsetnx("ht:meta", "layout", str(LAYOUT))
            layout = int(await self.redis.hget("ht:meta", "layout") or LAYOUT)
        except AuthenticationError as error:
            raise StoreUnavailable(
                f"the store at {self._place()} refused our password ({error}); check store.url"
            ) from None
        except (RedisError, OSError) as error:
            raise StoreUnavailable(
                f"cannot use the store at {self._place()} ({error}); start it (hermes-tasks up does) or check store.url"
            ) from None
        if layout > LAYOUT:
            raise InvalidRequest(f"the store has record layout {layout}, this program knows {LAYOUT}: upgrade it first")
        warnings = []
        if not int(info.get("aof_enabled", 0)):
            warnings.append("the store keeps no append-only file: acknowledged work is lost when it restarts")
        if info.get("maxmemory_policy", "noeviction") != "noeviction":
            warnings.append(
                f"the store may evict records (maxmemory-policy {info['maxmemory_policy']}); set noeviction"
            )
        return warnings

    def _place(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2] or self.url.partition("?")[0]

    async def usage(self) -> float:
        """Share of the store's memory limit in use, 0 when it has none."""
        info = await self.redis.info("memory")
        limit = int(info.get("maxmemory", 0))
        return int(info["used_memory"]) / limit if limit else 0.0


async def _reply(connection: AbstractConnection) -> object:
    try:
        return await connection.read_response()
    except ResponseError as error:  # the command's own error; the connection is fine
        return error
