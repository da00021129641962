"""One structured line per event, on stderr; set up once per process by its entry point."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hermes_tasks.safety.masking import MASK, mask_secrets
from hermes_tasks.safety.secret_names import is_secret_name
from hermes_tasks.settings.sections import LogSettings

#: The words that say what a line is about; the same in every process, so that one run can be followed.
FIELDS: Final = ("run", "kind", "user", "session", "turn", "attempt", "batch", "channel", "job", "queue")
#: Libraries whose "info" is a line per request or per connection.
_QUIET: Final = ("httpx", "httpcore", "openai", "aiohttp.access", "asyncio", "kombu", "urllib3")


def configure_logging(settings: LogSettings, process: str) -> None:
    """Send everything this process logs, its libraries' lines too, to stderr as JSON or for a terminal.

    Args:
        process: who speaks: ``front``, ``worker:delegation`` …

    A second call replaces the first.
    """
    json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        _named(process),
    ]
    ending: list[Processor] = (
        [structlog.processors.format_exc_info, hide_secrets, structlog.processors.JSONRenderer(ensure_ascii=False)]
        if json
        else [
            structlog.processors.format_exc_info,
            hide_secrets,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ]
    )
    structlog.configure(
        processors=[*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module; may be made at import, before :func:`configure_logging`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


@contextmanager
def about(**fields: str | int | None) -> Iterator[None]:
    """Add what the work is about to every line logged inside, through awaits and child tasks.

    Args:
        fields: words of ``FIELDS``; None and empty ones are left out.

    Raises:
        ValueError: a word that is not in ``FIELDS``.
    """
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise ValueError(f"log lines are not about {', '.join(unknown)}; use {', '.join(FIELDS)}")
    with structlog.contextvars.bound_contextvars(**{name: value for name, value in fields.items() if value}):
        yield


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask the values of secret-looking names, and every secret inside a text, at any depth."""
    return {name: _clean(name, value) for name, value in event.items()}


def _clean(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if is_secret_name(name):
        return MASK
    if isinstance(value, Mapping):
        return {key: _clean(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(name, inner) for inner in value]
    return mask_secrets(str(value))


def _named(process: str) -> Processor:
    def add(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    return add
