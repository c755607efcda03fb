"""No index of sessions covers columns that each transition writes (ADR 43)."""

import re

import pytest
from django.db import connection

from sessions_app.models import ComputeSession

pytestmark = pytest.mark.django_db
WRITTEN_BY_EACH_MOVE = (
    "status", "status_reason", "status_message", "status_changed_at", "deadline_at", "queue_position",
)  # fmt: skip


def test_no_index_of_sessions_has_what_each_move_writes() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexdef FROM pg_indexes WHERE tablename = %s", [ComputeSession._meta.db_table]
        )
        indexes = [index for (index,) in cursor.fetchall()]
    assert indexes
    named = re.compile(rf"\b({'|'.join(WRITTEN_BY_EACH_MOVE)})\b")
    assert [index for index in indexes if named.search(index)] == []


def test_pending_and_live_sessions_are_found_without_status() -> None:
    waiting, live = (
        str(rows.query) for rows in (ComputeSession.objects.waiting(), ComputeSession.objects.live())
    )
    for words in ('"started_at" IS NULL', '"ended_at" IS NULL'):
        assert words in waiting
    assert '"ended_at" IS NULL' in live
