"""The Celery application of workers and web: `celery -A portal` finds it here. portal/beat.py is the clock."""

import os
import sys
from threading import Event, Thread
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready, worker_shutdown, worker_shutting_down

from common.dispatch import QUEUE_OF, TaskName
from portal.descriptors import raise_descriptor_limit
from portal.garbage import leave_startup_to_rest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
TURN_S = 0.0005  # of a thread that computes
LISTENER_ENDS_WITHIN_S = 5
_is_over = Event()
_listeners: list[Thread] = []


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Workers log as portal.settings says: who listens to this signal keeps Celery from setting up its own."""


@worker_ready.connect
def leave_imports_to_rest(**_: object) -> None:
    """Its pool is of threads: there is one heap."""
    leave_startup_to_rest()


@worker_ready.connect
def allow_many_connections(**_: object) -> None:
    raise_descriptor_limit()


@worker_ready.connect
def listen_for_newcomers(sender: Any, **_: object) -> None:
    """Workers that tick. A tick computes for long: without a shorter turn whoever listens would wait for the interpreter after each answer
    of PostgreSQL."""
    from scheduler.listening import listen  # Django is set up by now

    if QUEUE_OF[TaskName.TICK] in sender.app.amqp.queues.consume_from:
        sys.setswitchinterval(TURN_S)
        _listeners.append(Thread(target=listen, args=(_is_over,), name="newcomers", daemon=True))
        _listeners[-1].start()


@worker_shutting_down.connect
def listen_no_more(**_: object) -> None:
    _is_over.set()


@worker_shutdown.connect
def wait_for_listeners(**_: object) -> None:
    """Whom they heard of last they place."""
    _is_over.set()
    while _listeners:
        _listeners.pop().join(timeout=LISTENER_ENDS_WITHIN_S)


app = Celery("berth")
app.set_default()  # in every thread, not in that of the import alone: the web server sends tasks from many
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
