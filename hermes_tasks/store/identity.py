"""Whose store is this? The embedded store carries the id of its home."""

from __future__ import annotations

import redis.asyncio as aredis
from redis.exceptions import AuthenticationError, RedisError

from hermes_tasks.contracts.errors import Conflict, StoreUnavailable


async def check_identity(client: aredis.Redis, home_id: str) -> None:
    """Return if the store belongs to this home; a store nobody stamped becomes ours.

    Raises:
        Conflict: it belongs to another home, or refuses our password.
        StoreUnavailable: it does not answer.
    """
    try:
        await client.hsetnx("ht:meta", "home", home_id)
        found = await client.hget("ht:meta", "home")
    except AuthenticationError:
        raise Conflict(
            "the server on our port refuses this home's password: it is not ours; set store.port", field="store.port"
        ) from None
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"the store does not answer ({error}); is it running?") from None
    owner = found.decode() if isinstance(found, bytes) else found
    if owner != home_id:
        raise Conflict(
            f"the store belongs to another home (id {owner}, ours is {home_id}); set store.port or store.url",
            field="store.port",
        )
