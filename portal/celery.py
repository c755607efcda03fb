"""The Celery application: queues and the periodic schedule. `celery -A portal` finds it here."""

import os

from celery import Celery

from common.dispatch import QUEUE_OF, TaskName

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("berth")
app.set_default()  # in every thread, not in that of the import alone: the web server sends tasks from many
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Seconds between runs. Events start the same work earlier; each of these alone would be right, only slower.
PERIODS_S = {
    TaskName.TICK: 5,
    TaskName.HEARTBEAT_AGENTS: 10,
    TaskName.RECONCILE_SESSIONS: 2,
    TaskName.PURGE_EXPIRED: 600,
    TaskName.PURGE_FOLDERS: 300,
}
app.conf.beat_schedule = {
    name.value: {
        "task": name.value,
        "schedule": period_s,
        # A task that nobody took within its period is replaced by the next one, not piled up.
        "options": {"queue": QUEUE_OF[name], "expires": period_s},
    }
    for name, period_s in PERIODS_S.items()
}
