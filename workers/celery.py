"""The Celery app: its queues, and the beat that makes the scheduler look even when a message was lost."""

import os

import django
from celery import Celery
from django.conf import settings
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
django.setup()

from webapp import messages  # noqa: E402 - Django must be set up first

LOOK_EVERY_SECONDS = 5.0

app = Celery("workers", broker=settings.BROKER_URL, include=["workers.tasks", "workers.agents"])
app.conf.update(
    task_ignore_result=True,
    task_default_queue=messages.SCHEDULER_QUEUE,
    task_queues=[
        Queue(name, Exchange(name), routing_key=name)
        for name in (messages.SCHEDULER_QUEUE, messages.node_queue(settings.NODE_NAME))
    ],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A broker that hangs must not hold a worker for ever.
    broker_transport_options={"socket_connect_timeout": 5, "socket_keepalive": True, "health_check_interval": 10},
    beat_schedule={
        "look": {
            "task": messages.SCHEDULE,
            "schedule": LOOK_EVERY_SECONDS,
            "options": {"queue": messages.SCHEDULER_QUEUE, "expires": LOOK_EVERY_SECONDS},
        }
    },
    beat_schedule_filename=str(settings.DATA / "beat-schedule"),
    timezone="UTC",
)
