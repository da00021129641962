"""The Celery app: ids as JSON and nothing else, early ack, no prefetch, every queue by name."""

from __future__ import annotations

import pickle

import pytest
from kombu.exceptions import ContentDisallowed
from kombu.message import Message
from kombu.serialization import prepare_accept_content

from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.runtime.app import make_app

REDIS = "redis://127.0.0.1:1/1"


def test_its_queues_are_the_contracts_and_no_other_can_appear() -> None:
    app = make_app(REDIS)
    assert {queue.name for queue in app.conf.task_queues} == {str(queue) for queue in Queue}
    assert all(queue.routing_key == queue.exchange.name == queue.name for queue in app.conf.task_queues)
    assert app.conf.task_create_missing_queues is False


def test_work_is_acknowledged_early_and_none_is_fetched_ahead() -> None:
    conf = make_app(REDIS).conf
    assert conf.task_acks_late is False
    assert conf.worker_prefetch_multiplier == 1
    assert conf.worker_disable_prefetch is True
    assert make_app("memory://").conf.worker_disable_prefetch is False, "a redis-only switch"


def test_nothing_is_kept_by_celery() -> None:
    conf = make_app(REDIS).conf
    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.task_publish_retry is False


def test_a_broker_that_is_away_is_waited_for() -> None:
    conf = make_app(REDIS).conf
    assert conf.broker_connection_retry_on_startup is True
    assert conf.broker_connection_max_retries is None
    assert conf.worker_cancel_long_running_tasks_on_connection_loss is False


@pytest.mark.parametrize("kind", ["application/x-python-serialize", "application/x-yaml", "pickle"])
def test_a_message_that_is_not_json_is_never_read(kind: str) -> None:
    accepted = prepare_accept_content(make_app(REDIS).conf.accept_content)
    message = Message(body=pickle.dumps(["ann"]), content_type=kind, content_encoding="binary", accept=accepted)
    with pytest.raises(ContentDisallowed):
        message.decode()


def test_task_events_can_be_turned_off() -> None:
    assert make_app(REDIS).conf.worker_send_task_events is True
    assert make_app(REDIS, events=False).conf.worker_send_task_events is False


def test_two_apps_share_nothing() -> None:
    first, second = make_app(REDIS), make_app("memory://")
    assert first.conf.broker_url == REDIS
    assert second.conf.broker_url == "memory://"
    assert second.conf.broker_transport_options == {}
