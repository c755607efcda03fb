"""Triggers the follow-up of an ended array element."""

from collections.abc import Collection
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from common.messaging.dispatch import TaskName, enqueue_on_commit
from sessions_app.models import SessionArray


def look_on_commit(array_ids: Collection[UUID | None]) -> None:
    """Enqueue LOOK_AT_ARRAY after commit for arrays with a throttle or dependents.

    Call it when elements of these arrays end: the next element may be released, and dependents may
    start. One query if there are arrays. It runs after the commit so that a dependency added
    meanwhile is seen here, or sees the end itself.
    """
    known = [each for each in array_ids if each is not None]
    if not known:
        return

    def ask() -> None:
        looked_at = Q(most_at_once__isnull=False) | Q(is_awaited=True)
        for array in SessionArray.objects.filter(looked_at, pk__in=known).order_by():
            enqueue_on_commit(TaskName.LOOK_AT_ARRAY, array_id=str(array.pk))

    transaction.on_commit(ask, robust=True)
