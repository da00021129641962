"""kombu's Redis channel keeps its connection parameters when its transport was detached."""

from __future__ import annotations

import kombu.transport
from kombu import Connection

from hermes_tasks.runtime.transport import KeepingChannel, KeepingTransport, use_keeping_transport


def test_redis_urls_use_it_from_then_on() -> None:
    use_keeping_transport()
    use_keeping_transport()
    for url in ("redis://127.0.0.1:1/1", "rediss://127.0.0.1:1/1"):
        assert Connection(url).get_transport_cls() is KeepingTransport
    assert set(kombu.transport.TRANSPORT_ALIASES) >= {"redis", "rediss", "amqp", "memory"}


def test_a_channel_whose_transport_was_detached_still_knows_its_server() -> None:
    """As when Celery closes a broken connection twice; without the parameters the worker would end here."""
    use_keeping_transport()
    connection = Connection("redis://127.0.0.1:6399/1")
    channel = KeepingChannel.__new__(KeepingChannel)
    channel.connection = connection.transport
    channel.connection_class = channel.connection_class_ssl = None
    before = channel._connparams()
    assert (before["host"], before["port"], before["db"]) == ("127.0.0.1", 6399, 1)
    channel.connection.client = None
    after = channel._connparams()
    assert (after["host"], after["port"], after["db"]) == ("127.0.0.1", 6399, 1)
    after["db"] = 0
    assert channel._connparams()["db"] == 1, "what is handed out is a copy"
