"""Where store and broker are, from the settings: the URLs that clients are given."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit, urlunsplit

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.settings import Settings
from hermes_tasks.store.embedded import embedded_url


def store_url(settings: Settings) -> str:
    """The store's URL, password included.

    Raises:
        NotFound: the embedded store of a home that was never started.
    """
    if settings.store.url is not None:
        return settings.store.url.get_secret_value()
    return embedded_url(settings.paths, settings.store.port, 0)


def broker_url(settings: Settings) -> str:
    """The broker's URL, password included: what is set, or the next database of the store's server.

    Raises:
        NotFound: as for :func:`store_url`.
        InvalidRequest: the store's URL has no database number to count from.
    """
    if settings.broker.url is not None:
        return settings.broker.url.get_secret_value()
    parts = urlsplit(store_url(settings))
    number = parts.path.strip("/") or "0"
    if not number.isdecimal() or "db" in parse_qs(parts.query):
        raise InvalidRequest(
            "store.url does not end in a database number, as redis://host:6379/0; write it so, or set broker.url",
            field="store.url",
        )
    return urlunsplit(parts._replace(path=f"/{int(number) + 1}"))
