"""How full the store is, looked at in the background, so that new work is refused before writes begin to fail."""

from __future__ import annotations

import asyncio
from typing import Final

from hermes_tasks.contracts.errors import HermesTasksError, StoreFull
from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.client import Store

#: Share of the store's memory limit above which the front takes no new work.
FULL: Final = 0.85
_EVERY_S: Final = 3.0
_PATIENCE_S: Final = 5.0
_LOG: Final = get_logger(__name__)


class Pressure:
    """The store's fill level as last seen; a store that does not answer keeps its last level.

    Args:
        every_s: seconds between two looks.
    """

    def __init__(self, store: Store, *, every_s: float = _EVERY_S) -> None:
        self._store, self._every_s = store, every_s
        self._level = 0.0

    @property
    def level(self) -> float:
        """Share of the memory limit in use, 0 to 1; 0 when there is no limit."""
        return self._level

    def check(self) -> None:
        """Return if there is room for new work.

        Raises:
            StoreFull: there is not.
        """
        if self._level > FULL:
            raise StoreFull(
                f"the store is {self._level:.0%} full and takes no new work; try later, or raise store.max_memory_mb"
            )

    async def watch(self) -> None:
        """Look for ever, the first time at once."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Look once."""
        asked = asyncio.create_task(self._store.usage())
        await asyncio.wait({asked}, timeout=_PATIENCE_S)
        if not asked.done():
            asked.cancel()
            await asyncio.wait({asked})
        if asked.cancelled():
            _LOG.warning("the store does not say how full it is", waited_s=_PATIENCE_S)
        elif (error := asked.exception()) is not None:
            traced = None if isinstance(error, HermesTasksError | OSError) else error
            _LOG.warning("the store does not say how full it is", error=str(error), exc_info=traced)
        else:
            self._level = asked.result()
