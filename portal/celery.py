"""Celery application (`celery -A portal`). portal/processes/periodic.py sends periodic tasks."""

import os

from celery import Celery
from celery.signals import setup_logging, worker_ready

from portal.processes.tuning import freeze_startup_objects, raise_descriptor_limit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Keep the logging of portal.settings: a receiver of this signal disables Celery's set-up."""


@worker_ready.connect
def freeze_imports(**_: object) -> None:
    """Freeze imported objects in the worker; its pool consists of threads, so there is one heap."""
    freeze_startup_objects()


@worker_ready.connect
def allow_many_connections(**_: object) -> None:
    raise_descriptor_limit()


app = Celery("berth")
app.set_default()  # in all threads, not just the importing one: the web server sends tasks from many
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
