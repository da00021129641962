"""Keeps leases alive from a thread of its own, with a connection of its own: a busy event loop loses no lease.

The thread also watches the loop: when it has not moved for ``stuck_s``, renewal stops, so others take the work over,
and the process is told (``on_stuck``) if it does not move by the next round either.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry

from hermes_tasks.contracts.errors import LeaseLost, RunCancelled
from hermes_tasks.store.client import StoreConfig
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.scripts import load_scripts

_GROUP: Final = 100


@dataclass(slots=True, eq=False)
class Lease:
    """The sole right to advance one record: its fence, and a holder id new for each acquisition.

    Attributes:
        on_lost: told in the event loop, at most once, when somebody else has it or the run was ended.
        leaving: the holder itself gives it back or ends the run just now; that it is gone then is no loss.
    """

    kind: str  # "run" or "cur"
    user: str
    id: str
    fence: int
    holder: str
    renewed: float = field(default_factory=time.monotonic)
    on_lost: Callable[[LeaseLost | RunCancelled], None] | None = None
    lost: LeaseLost | RunCancelled | None = None
    leaving: bool = False


class Renewer:
    """One per process.

    Args:
        url: the store.
        config: lease length and pace.
        on_stuck: called in the thread when the event loop has not moved for ``stuck_s`` seconds.
    """

    def __init__(
        self, url: str, config: StoreConfig, *, on_stuck: Callable[[float], None] | None = None, stuck_s: float = 10.0
    ) -> None:
        self._config, self._url = config, url
        self._on_stuck, self._stuck_s = on_stuck, stuck_s
        self._leases: set[Lease] = set()
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat = time.monotonic()
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Begin renewing; call it inside the event loop. A second call does nothing."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._beat = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="lease-renewer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop renewing and wait for the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5)

    def add(self, lease: Lease) -> Lease:
        """Renew this lease until it is dropped or lost."""
        with self._guard:
            self._leases.add(lease)
        return lease

    def drop(self, lease: Lease) -> None:
        """Stop renewing it. A second call does nothing."""
        with self._guard:
            self._leases.discard(lease)

    def holds(self, lease: Lease) -> bool:
        """True until the lease is dropped or lost."""
        with self._guard:
            return lease in self._leases

    async def fresh(self, lease: Lease) -> None:
        """Return when the lease was renewed less than ``fresh_ms`` ago.

        Raises:
            LeaseLost, RunCancelled: it is gone.
        """
        while True:
            if lease.lost is not None:
                raise lease.lost
            if time.monotonic() - lease.renewed < self._config.fresh_ms / 1000:
                return
            await self._changed.wait()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        client = redis.Redis.from_url(
            self._url, protocol=2, decode_responses=True, socket_timeout=5, socket_connect_timeout=2,
            retry=Retry(NoBackoff(), 0),
        )  # fmt: skip
        wire, was_silent = self._config.wire(), False
        while not self._stop.wait(self._config.renew_ms / 1000):
            loop = self._loop
            if loop is None or loop.is_closed():
                return
            silent = time.monotonic() - self._beat
            loop.call_soon_threadsafe(self._tick)
            if silent > self._stuck_s:
                # Not at the first look: after a freeze of the whole process the loop had no chance to move either.
                if was_silent and self._on_stuck is not None:
                    self._on_stuck(silent)
                was_silent = True
                continue
            was_silent = False
            by_user: dict[str, list[Lease]] = defaultdict(list)
            with self._guard:
                for lease in self._leases:
                    by_user[lease.user].append(lease)
            for user, leases in by_user.items():
                for start in range(0, len(leases), _GROUP):
                    if not self._renew(client, wire, user, leases[start : start + _GROUP]):
                        break
        client.close()

    def _renew(self, client: redis.Redis, wire: str, user: str, leases: list[Lease]) -> bool:
        script = load_scripts()["leases_renew"]
        args = [wire, *(text for lease in leases for text in (lease.kind, lease.id, str(lease.fence), lease.holder))]
        sent = time.monotonic()
        try:
            try:
                reply = client.evalsha(script.sha, 1, user_key(user), *args)
            except NoScriptError:
                reply = client.eval(script.text, 1, user_key(user), *args)
        except (RedisError, OSError):
            return False  # the store is away: nothing is renewed, nothing is lost yet
        states = json.loads(str(reply))["states"]
        for lease, state in zip(leases, states, strict=True):
            if state == "ok":
                lease.renewed = sent
            else:
                self.drop(lease)
                error = RunCancelled if state == "ended" else LeaseLost
                lease.lost = error(f"{lease.kind} {lease.id}: {state}")
                self._call(self._announce, lease)
        self._call(self._wake)
        return True

    def _call(self, function: Callable[..., None], *args: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function, *args)

    # -- in the loop ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._beat = time.monotonic()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()

    def _announce(self, lease: Lease) -> None:
        self._wake()
        if lease.on_lost is not None and lease.lost is not None and not lease.leaving:
            lease.on_lost(lease.lost)
