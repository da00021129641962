"""The target ``inbox``: always there, and always in the store, so handing over and marking are one script."""

from __future__ import annotations

from hermes_tasks.observe.logging import get_logger
from hermes_tasks.store.jobs import Jobs

_log = get_logger(__name__)


class InboxDelivery:
    """Hands owed deliveries to inboxes."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def deliver(self, user: str, delivery: str) -> None:
        """Deliver one; a second call changes nothing."""
        word = await self._jobs.deliver(user, delivery)
        _log.info("delivery", user=user, delivery=delivery, outcome=word)
