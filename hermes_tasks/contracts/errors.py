"""Every error the project raises, as one tree. The class decides what happens next, never the text.

HermesTasksError
├── InvalidRequest          the caller must change something; never retried
│   ├── NotFound            it does not exist, or it is not yours: the same answer for both
│   └── Conflict            the same key or number was used before for something else
├── Retryable               the same call may succeed later
│   ├── ModelUnavailable    the model endpoint is down, overloaded or broke off
│   ├── RateLimited         the provider asked us to wait (``retry_after``)
│   ├── StoreUnavailable    the store does not answer
│   └── StoreFull           the store is near its memory limit; new work is refused
├── Permanent               repeating cannot help
│   ├── ModelRefused        key refused, unknown model, or a request the provider rejects
│   ├── ContextTooLong      the conversation does not fit the model's context window
│   └── BadModelAnswer      the endpoint answered something that is not a chat completion
├── LeaseLost               somebody else holds the run or cursor now: stop, write nothing
├── RunCancelled            the run was ended from outside while we executed it
└── DeadlineExceeded        the run's own deadline passed
"""

from __future__ import annotations

from datetime import timedelta


class HermesTasksError(Exception):
    """Base of all errors of this project. Its text names the cause and the remedy in one line."""


class InvalidRequest(HermesTasksError):
    """The caller must change something. Carries ``field``: the name of what was wrong, if there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(InvalidRequest):
    """It does not exist or belongs to somebody else."""


class Conflict(InvalidRequest):
    """An id, key or number is already taken by something different."""


class Retryable(HermesTasksError):
    """The same call may succeed later."""


class ModelUnavailable(Retryable):
    """The model endpoint is down, overloaded, timed out or broke the stream off."""


class RateLimited(Retryable):
    """The provider asked us to slow down.

    Args:
        retry_after: how long it asked us to wait, or None when it did not say.
        model: the configured name of the model whose provider it was; "" = the one that was asked.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None, model: str = "") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.model = model


class StoreUnavailable(Retryable):
    """The store does not answer, or is still loading its log."""


class StoreFull(Retryable):
    """The store is above its memory mark; work in progress goes on, new work is refused."""


class Permanent(HermesTasksError):
    """Repeating the same call cannot help."""


class ModelRefused(Permanent):
    """The provider refused the key, the model name or the request itself (HTTP 4xx other than 429)."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContextTooLong(Permanent):
    """The request does not fit the model's context window."""


class BadModelAnswer(Permanent):
    """The endpoint answered something that is not a chat completion."""


class LeaseLost(HermesTasksError):
    """Our fence, holder id or expected index no longer matches the record."""


class RunCancelled(HermesTasksError):
    """The run reached a terminal state from outside (cancel, deadline) while we held it."""


class DeadlineExceeded(HermesTasksError):
    """The run's own deadline passed while we were executing it."""
