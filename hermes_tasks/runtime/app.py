"""The Celery app. Every setting has its reason; the facts behind them are in docs/decisions.md."""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from kombu.entity import Exchange
from kombu.entity import Queue as BrokerQueue

from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.runtime.transport import use_keeping_transport

#: What other packages call an app; they import Celery through this one only.
App = Celery
#: In front of the short task names of :class:`~hermes_tasks.contracts.bell.Ring`.
TASK_PREFIX: Final = "hermes."


def make_app(broker_url: str, *, events: bool = True) -> Celery:
    """An app that only carries doorbells.

    Args:
        broker_url: any kombu URL; Redis by default.
        events: send task events, so that Flower can show them.
    """
    use_keeping_transport()
    app = Celery("hermes_tasks", set_as_current=False)
    app.conf.update(
        broker_url=broker_url,
        # Results live in our records; a result backend costs 5 commands a task and makes publishing fail late.
        result_backend=None,
        task_ignore_result=True,
        # Ids as JSON and nothing else: no pickle can ever be read.
        accept_content=["json"],
        task_serializer="json",
        # Early ack, no prefetch: the record brings work back, so no message is ever unacked for long (R1, R5, R6).
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=broker_url.startswith("redis"),
        # A broker that is away is waited for, for ever; running work is not cut by it.
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # A publish that fails is rung again by recovery; retrying it blocks or doubles (R16).
        task_publish_retry=False,
        broker_pool_limit=4,
        broker_transport_options=_transport(broker_url),
        task_queues=[_broker_queue(str(queue)) for queue in Queue],
        task_create_missing_queues=False,
        task_default_queue=str(Queue.TURNS),
        worker_send_task_events=events,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        timezone="UTC",
        enable_utc=True,
    )
    return app


def _broker_queue(name: str) -> Any:
    return BrokerQueue(name, Exchange(name, type="direct"), routing_key=name)  # type: ignore[no-untyped-call]


def _transport(broker_url: str) -> dict[str, Any]:
    if not broker_url.startswith("redis"):
        return {}
    return {
        "socket_connect_timeout": 2.0,
        "socket_timeout": 5.0,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # No priorities; many queues of one role are served in turn.
        "priority_steps": [0],
        "queue_order_strategy": "round_robin",
        # The default sweep takes about 100 s; this is only the second net behind our own recovery.
        "visibility_timeout": 3600,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    }
