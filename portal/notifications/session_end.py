"""Notifications of ended sessions: one per session, or one per array when it has ended."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import CharField, Exists, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat

from common import clock
from portal.models import ToldNotice
from portal.notifications.catalogue import NOTIFIED_REASONS, Code, code_of_end
from portal.notifications.service import NewNotification, notify_many
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionArray

REPAIR_PERIOD = timedelta(hours=1)
END, END_OF_ARRAY = "end:", "array-end:"
MOST_AT_ONCE = 1000


class _Ended(NamedTuple):
    """Columns of an ended session; faster to read than model instances."""

    id: UUID
    owner_id: int
    array_id: UUID | None
    name: str
    status: str
    status_reason: str
    exit_code: int | None
    image_reference: str
    ended_at: datetime


def notify_of_ends(session_ids: Collection[UUID]) -> None:
    """Notify the owners why these sessions ended, except if requested. Safe to run twice."""
    _notify(_read(ComputeSession.objects.ended().filter(pk__in=session_ids).order_by()))


def _notify(ended: Sequence[_Ended]) -> None:
    notifications = [
        notification
        for session in ended
        if session.array_id is None and (notification := _notification(session))
    ]
    if arrays := {session.array_id for session in ended if session.array_id}:
        notifications += _array_notifications(arrays)
    if notifications:
        notify_many(notifications)


def _read(sessions: ComputeSessionQuerySet) -> list[_Ended]:
    return [_Ended(*row) for row in sessions.values_list(*_Ended._fields)]


def notify_of_missed_ends() -> None:
    """Notify of recent ends that were missed because a process died. Safe to run at any time."""
    now = clock.now()
    is_notified = _is_notified(END, "pk")
    siblings = ComputeSession.objects.live().filter(array=OuterRef("array"))
    is_array_due = Q(array__isnull=False) & ~Exists(siblings) & ~_is_notified(END_OF_ARRAY, "array_id")
    ended = ComputeSession.objects.filter(
        Q(status=Status.ERROR) | Q(status_reason__in=NOTIFIED_REASONS),
        (Q(array=None) & ~is_notified) | is_array_due,
        ended_at__gt=now - REPAIR_PERIOD,
        ended_at__lt=now - timedelta(minutes=1),
    )
    _notify(_read(ended[:MOST_AT_ONCE]))


def _is_notified(happening: str, column: str) -> Exists:
    named = Concat(Value(happening), Cast(OuterRef(column), CharField()))
    return Exists(ToldNotice.objects.filter(person_id=OuterRef("owner_id"), happening=named))


def _notification(session: _Ended) -> NewNotification | None:
    code = code_of_end(session.status, session.status_reason)
    if code is None:
        return None
    return NewNotification(
        person_id=session.owner_id,
        code=code,
        happening=f"{END}{session.id}",
        arguments={"name": session.name, "exit_code": session.exit_code, "image": session.image_reference},
        session_id=session.id,
        again_until=session.ended_at + REPAIR_PERIOD,
    )


def _array_notifications(array_ids: Collection[UUID]) -> list[NewNotification]:
    """Return notifications for those arrays without live elements, except ones that
    their owners ended completely. Since ends are processed after commit, the last one
    finds all ended. 2 queries.
    """
    live = ComputeSession.objects.live().filter(array=OuterRef("pk"))
    over = list(SessionArray.objects.filter(~Exists(live), pk__in=array_ids))
    elements = defaultdict(list)
    for element in _read(ComputeSession.objects.filter(array__in=over).order_by("array_index")):
        elements[element.array_id].append(element)
    return [
        notification for array in over if (notification := _array_notification(array, elements[array.pk]))
    ]


def _array_notification(array: SessionArray, elements: list[_Ended]) -> NewNotification | None:
    codes = [code_of_end(each.status, each.status_reason) for each in elements]
    if not any(codes):
        return None
    failed = len(codes) - codes.count(Code.COMMAND_FINISHED)
    return NewNotification(
        person_id=array.owner_id,
        code=Code.ARRAY_FAILED if failed else Code.ARRAY_FINISHED,
        happening=f"{END_OF_ARRAY}{array.pk}",
        arguments={"name": array.name, "count": len(codes), "failed": failed},
        session_id=elements[0].id,
        again_until=max(each.ended_at for each in elements) + REPAIR_PERIOD,
    )
