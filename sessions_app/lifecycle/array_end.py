"""What the end of an element is followed by."""

from collections.abc import Collection
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from common.messaging.dispatch import TaskName, enqueue_on_commit
from sessions_app.models import SessionArray


def look_on_commit(array_ids: Collection[UUID | None]) -> None:
    """An element of each of these ends in this transaction: once it has, another may be let into the queue, if there is a limit, and
    others may go on that come after the array. One query then, if there are any: whoever says meanwhile that the array is awaited is
    seen, or sees the end."""
    known = [each for each in array_ids if each is not None]
    if not known:
        return

    def ask() -> None:
        looked_at = Q(most_at_once__isnull=False) | Q(is_awaited=True)
        for array in SessionArray.objects.filter(looked_at, pk__in=known).order_by():
            enqueue_on_commit(TaskName.LOOK_AT_ARRAY, array_id=str(array.pk))

    transaction.on_commit(ask, robust=True)
