"""Reads and ends arrays. `visible_arrays` is the only list source, `access_array` the only fetch.

Permissions on an array are those on its elements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext as _

from accounts.selectors import get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import NotFound, PermissionDenied
from common.messaging.dispatch import TaskName, enqueue_on_commit
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import LIVE, Reason, Status
from sessions_app.lifecycle import transitions, updates
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionArray
from sessions_app.queue.endings import Ending, ended_as
from sessions_app.selectors import Action, is_stoppable, may, visible_to

UNDO_S = 10


def visible_arrays(actor: Actor) -> QuerySet[SessionArray]:
    """Return the arrays that the actor may see, newest first, with owner, project and domain."""
    return SessionArray.objects.filter(visible_to(actor)).select_related("owner", "project", "domain")


def access_array(actor: Actor, array_id: UUID, action: Action) -> SessionArray:
    """Return the array. Raises NotFound (absent or hidden), PermissionDenied (visible, not allowed)."""
    array = visible_arrays(actor).filter(pk=array_id).first()
    if array is None:
        raise NotFound(_("There is no such array among yours."))
    if not may(actor, array, action):
        sentence = _("The array “{array}” belongs to {owner}; you may only look at it.")
        raise PermissionDenied(sentence.format(array=array.name, owner=array.owner.email))
    return array


@dataclass(frozen=True, slots=True)
class Progress:
    """Number of an array's elements by state."""

    statuses: Mapping[str, int] = field(default_factory=dict)  # status: number of elements
    held: int = 0  # PENDING elements held by the array throttle
    succeeded: int = 0  # ended elements that succeeded
    failed: int = 0  # ended elements that failed; the remaining ones never ran (`endings`)

    @property
    def live(self) -> int:
        return sum(count for status, count in self.statuses.items() if status in LIVE)

    @property
    def ended(self) -> int:
        return sum(self.statuses.values()) - self.live


def progress_by_array(arrays: Sequence[SessionArray]) -> dict[UUID, Progress]:
    """Return the progress by array id. One query for any number of arrays and elements."""
    elements = ComputeSession.objects.filter(array__in=[array.pk for array in arrays]).order_by()
    is_held = Q(status=Status.PENDING.value, held_for=Hold.ARRAY_LIMIT.value)
    counted = elements.values("array_id", "status").annotate(
        count=Count("pk"),
        held=Count("pk", filter=is_held),
        succeeded=Count("pk", filter=ended_as(Ending.SUCCESS)),
        failed=Count("pk", filter=ended_as(Ending.FAILURE)),
    )
    found: dict[UUID, Progress] = {array.pk: Progress() for array in arrays}
    for row in counted:
        known = found[row["array_id"]]
        found[row["array_id"]] = Progress(
            {**known.statuses, row["status"]: row["count"]},
            known.held + row["held"],
            known.succeeded + row["succeeded"],
            known.failed + row["failed"],
        )
    return found


@transaction.atomic
def terminate_array(*, actor: Actor, array_id: UUID) -> SessionArray:
    """Terminate all live elements; no element is released meanwhile.

    Waiting elements become CANCELLED at once, terminating ones are not retried, ended ones stay as
    they are. A fixed number of statements per status, not per element.
    """
    array = access_array(actor, array_id, Action.TERMINATE)
    _terminate_elements(actor, array, _lock_live_elements(array))
    return array


@transaction.atomic
def schedule_array_stop(*, actor: Actor, array_id: UUID) -> int:
    """Schedule a stop of all elements in UNDO_S, which can be cancelled; return their number.

    Elements with a scheduled stop keep it.
    """
    array = access_array(actor, array_id, Action.TERMINATE)
    stopped = [each for each in _lock_live_elements(array) if not each.stops_at and is_stoppable(each)]
    at = clock.now() + timedelta(seconds=UNDO_S)
    _elements(stopped).update(stops_at=at, stops_by=get_acting_user(actor))
    _record_and_push(actor, "sessions.stop_soon", stopped)
    return len(stopped)


@transaction.atomic
def cancel_array_stop(*, actor: Actor, array_id: UUID) -> int:
    """Cancel the scheduled stops of all elements that have not begun to stop; return their number."""
    array = access_array(actor, array_id, Action.TERMINATE)
    kept = [each for each in _lock_live_elements(array) if each.stops_at and is_stoppable(each)]
    _elements(kept).update(stops_at=None, stops_by=None)
    _record_and_push(actor, "sessions.keep_session", kept)
    return len(kept)


@transaction.atomic
def terminate_due_elements(*, actor: Actor, array_id: UUID, stops_by_id: int | None) -> None:
    """Terminate elements whose scheduled stop is due and was requested by `stops_by_id`."""
    array = SessionArray.objects.get(pk=array_id)
    now = clock.now()
    due = [each for each in _lock_live_elements(array) if each.stops_at and each.stops_at <= now]
    _terminate_elements(actor, array, [each for each in due if each.stops_by_id == stops_by_id])


def _lock_live_elements(array: SessionArray) -> list[ComputeSession]:
    """Lock the array, then its live elements (ADR 8); no element is released meanwhile."""
    SessionArray.objects.select_for_update(no_key=True).get(pk=array.pk)
    live = ComputeSession.objects.live().filter(array=array).order_by("pk").select_for_update(no_key=True)
    return list(live)


def _terminate_elements(actor: Actor, array: SessionArray, elements: Sequence[ComputeSession]) -> None:
    """Terminate these locked elements."""
    ids: dict[Status, list[UUID]] = {}
    for each in elements:
        ids.setdefault(Status(each.status), []).append(each.pk)
    reason = Reason.USER_REQUESTED if array.owner_id == actor.user_id else Reason.ADMIN_REQUESTED
    transitions.transition_many(
        ids.get(Status.PENDING, []),
        from_status=Status.PENDING,
        to=Status.CANCELLED,
        reason=reason,
        actor=actor,
    )
    ending: list[UUID] = []
    for status in sorted(ids.keys() - {Status.PENDING, Status.TERMINATING}):
        to = Status.TERMINATING
        ending += transitions.transition_many(
            ids[status], from_status=status, to=to, reason=reason, actor=actor
        )
    retrying = ComputeSession.objects.filter(pk__in=ids.get(Status.TERMINATING, []))
    retrying.update(max_retries=F("retry_count"), requeues=False, may_change_devices=False)
    _record_elements(
        actor, "sessions.terminate_session", [each for each in elements if each.status != Status.TERMINATING]
    )
    for session_id in ending:
        enqueue_on_commit(TaskName.TERMINATE_SESSION, session_id=str(session_id))


def _elements(sessions: Sequence[ComputeSession]) -> ComputeSessionQuerySet:
    found: ComputeSessionQuerySet = ComputeSession.objects.filter(pk__in=[each.pk for each in sessions])
    return found


def _record_and_push(actor: Actor, action: str, sessions: Sequence[ComputeSession]) -> None:
    _record_elements(actor, action, sessions)
    for status in {each.status for each in sessions}:
        changed = (updates.audience_of(each) for each in sessions if each.status == status)
        updates.push_sessions_changed(changed, Status(status))


def _record_elements(actor: Actor, action: str, sessions: Sequence[ComputeSession]) -> None:
    if sessions:
        audit_log.record_many(actor=actor, action=action, targets=[(each, {}) for each in sessions])
