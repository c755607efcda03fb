"""The Celery application of workers and web: `celery -A portal` finds it here. portal/processes/periodic.py is the clock."""

import os

from celery import Celery
from celery.signals import setup_logging, worker_ready

from portal.processes.descriptors import raise_descriptor_limit
from portal.processes.gc_tuning import leave_startup_to_rest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")


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


app = Celery("berth")
app.set_default()  # in every thread, not in that of the import alone: the web server sends tasks from many
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
