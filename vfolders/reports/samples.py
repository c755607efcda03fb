"""Daily sizes per host and owner, from which growth is told."""

from datetime import date, timedelta

from django.db import connection

from common import clock
from vfolders.core.states import FolderState
from vfolders.models import SizeSample, VFolder

KEPT = timedelta(days=92)


def sample_sizes() -> None:
    """Store today's sizes of all owners on all hosts, in the place of earlier ones of today, and delete
    those older than KEPT. Safe to run at any time, twice or late. Three statements.
    """
    today = clock.now().date()
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO {SizeSample._meta.db_table} (day, host_id, owner_id, project_id, size_bytes)
            SELECT %s, host_id, owner_id, project_id, sum(size_bytes) FROM {VFolder._meta.db_table}
            WHERE state <> %s GROUP BY host_id, owner_id, project_id
            ON CONFLICT (day, host_id, owner_id, project_id) DO UPDATE SET size_bytes = excluded.size_bytes
            """,
            [today, FolderState.DELETING.value],
        )
    SizeSample.objects.filter(day__lt=today - KEPT).delete()


def day_before(days: int) -> date:
    """Return the day `days` before today (UTC)."""
    return clock.now().date() - timedelta(days=days)
