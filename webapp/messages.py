"""Names of tasks and live channels, and the two ways to send: a hint to the workers, a hint to the open pages.

Everything sent here may be lost, late or doubled: the rows in Postgres are the truth, and every receiver looks there.
So sending never fails the caller.
"""

import json
import logging
from collections.abc import Iterable
from functools import cache

import redis
from celery import Celery
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

SCHEDULE = "workers.schedule"
WAKE_NODE = "workers.wake_node"
SCHEDULER_QUEUE = "scheduler"
LIVE_CHANNEL = "zayaboard:live"


def node_queue(node_name: str) -> str:
    """The queue that only this node listens to."""
    return f"node.{node_name}"


def call_scheduler() -> None:
    """After commit: say that a run waits or a node is free."""
    transaction.on_commit(lambda: _send(SCHEDULE, SCHEDULER_QUEUE))


def wake_node(node_name: str) -> None:
    """After commit: say that this node's placements changed."""
    transaction.on_commit(lambda: _send(WAKE_NODE, node_queue(node_name)))


def publish(run_id: int, topics: Iterable[str]) -> None:
    """After commit: tell open pages what of a run changed: state, metrics, router, checkpoints, logs, events."""
    notice = json.dumps({"run": run_id, "topics": sorted(topics)})
    transaction.on_commit(lambda: _publish(notice))


def _send(task: str, queue: str) -> None:
    try:
        _producer().send_task(task, queue=queue, ignore_result=True, retry=False, expires=60)
    except Exception as error:  # the row is committed; the periodic look finds it without us
        log.warning("%s was not sent to %s: %s", task, queue, error)


def _publish(notice: str) -> None:
    try:
        _redis().publish(LIVE_CHANNEL, notice)
    except redis.RedisError as error:  # pages read everything again when their stream comes back
        log.warning("live notice was not sent: %s", error)


@cache
def _producer() -> Celery:
    app = Celery("zayaboard", broker=settings.BROKER_URL)
    app.conf.broker_transport_options = {"socket_connect_timeout": 1, "socket_timeout": 2, "max_retries": 0}
    return app


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=2)
