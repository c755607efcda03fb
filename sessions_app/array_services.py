"""Reads of arrays, and their end. `visible_arrays` is the only list source, `access_array` the only single fetch: who sees a
session sees its array, and may do to all elements what may be done to each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext as _

from common import audit
from common.actors import Actor
from common.dispatch import TaskName, enqueue_on_commit
from common.errors import NotFound, PermissionDenied
from sessions_app import lifecycle
from sessions_app.models import ComputeSession, SessionArray
from sessions_app.queueing import Hold
from sessions_app.selectors import Action, may, seen_by
from sessions_app.states import HOLDING, Reason, Status

SENT_TOGETHER = 500  # ids in one message


def visible_arrays(actor: Actor) -> QuerySet[SessionArray]:
    """Newest first, with whose they are."""
    return SessionArray.objects.filter(seen_by(actor)).select_related("owner", "project", "domain")


def access_array(actor: Actor, array_id: UUID, action: Action) -> SessionArray:
    """Raises NotFound (absent or hidden), PermissionDenied (seen, not allowed)."""
    array = visible_arrays(actor).filter(pk=array_id).first()
    if array is None:
        raise NotFound(_("There is no such array among yours."))
    if not may(actor, array, action):
        sentence = _("The array “{array}” belongs to {owner}; you may only look at it.")
        raise PermissionDenied(sentence.format(array=array.name, owner=array.owner.email))
    return array


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the elements of an array are."""

    statuses: Mapping[str, int] = field(default_factory=dict)  # that any is in
    held: int = 0  # of those that are PENDING, until it is their turn
    succeeded: int = 0  # of those that have ended


def progress_of(arrays: Sequence[SessionArray]) -> dict[UUID, Progress]:
    """By id, in one query, any number of arrays and elements."""
    elements = ComputeSession.objects.filter(array__in=[array.pk for array in arrays]).order_by()
    is_held = Q(status=Status.PENDING.value, held_for=Hold.ARRAY_LIMIT.value)
    ended_well = Q(ended_at__isnull=False, status_reason=Reason.COMMAND_FINISHED.value)
    counted = elements.values("array_id", "status").annotate(
        count=Count("pk"), held=Count("pk", filter=is_held), succeeded=Count("pk", filter=ended_well)
    )
    found: dict[UUID, Progress] = {array.pk: Progress() for array in arrays}
    for row in counted:
        known = found[row["array_id"]]
        found[row["array_id"]] = Progress(
            {**known.statuses, row["status"]: row["count"]},
            known.held + row["held"],
            known.succeeded + row["succeeded"],
        )
    return found


@transaction.atomic
def end_array(*, actor: Actor, array_id: UUID) -> SessionArray:
    """Ask all elements to end, none of which is let in meanwhile: those that wait are CANCELLED at once, those that end are not
    tried again, those that have ended are left as they are. Statements by status, not by element."""
    array = access_array(actor, array_id, Action.TERMINATE)
    SessionArray.objects.select_for_update(no_key=True).get(pk=array.pk)
    live = ComputeSession.objects.live().filter(array=array).order_by("pk").select_for_update(no_key=True)
    by_status: dict[Status, dict[UUID, str]] = {}
    for session_id, name, status in live.values_list("pk", "name", "status"):
        by_status.setdefault(Status(status), {})[session_id] = name
    reason = Reason.USER_REQUESTED if array.owner_id == actor.user_id else Reason.ADMIN_REQUESTED

    lifecycle.cancel_many(by_status.get(Status.PENDING, {}), reason=reason, actor=actor)
    ending: list[UUID] = []
    for status in HOLDING - {Status.TERMINATING}:
        found = by_status.get(status, {})
        if found:
            to = Status.TERMINATING
            ending += lifecycle.transition_many(found, frm=status, to=to, reason=reason, actor=actor)
    _give_up_retries(by_status.get(Status.TERMINATING, {}))
    _record(actor, [each for status, each in by_status.items() if status is not Status.TERMINATING])

    for first in range(0, len(ending), SENT_TOGETHER):
        ids = [str(each) for each in ending[first : first + SENT_TOGETHER]]
        enqueue_on_commit(TaskName.TERMINATE_SESSIONS, session_ids=ids)
    return array


def _give_up_retries(session_ids: Iterable[UUID]) -> None:
    ComputeSession.objects.filter(pk__in=list(session_ids)).update(
        max_retries=F("retry_count"), requeues=False
    )


def _record(actor: Actor, ended: Iterable[Mapping[UUID, str]]) -> None:
    names = {session_id: name for each in ended for session_id, name in each.items()}
    if not names:
        return
    first = ComputeSession.objects.get(pk=next(iter(names)))
    names.pop(first.pk)
    audit.record_alike(actor=actor, action="sessions.terminate_session", target=first, others=names)
