"""Releases or cancels dependent sessions when the awaited sessions or arrays end.

Triggered by each end of an awaited row (`is_awaited`); the reconciler repeats it for missed ends.
"""

from collections.abc import Collection
from operator import attrgetter
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from common.actors import SYSTEM
from common.values.stored_message import StoredMessage
from sessions_app.core.queue_options import Hold, When
from sessions_app.core.states import REASON_SENTENCES, Reason, Status
from sessions_app.lifecycle import transitions, updates
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionArray, SessionDependency
from sessions_app.queue import holds
from sessions_app.queue.array_release import release_elements
from sessions_app.queue.arrays import progress_by_array
from sessions_app.queue.dependencies import dependencies_by_session, dependency_message
from sessions_app.queue.endings import Ending, ended_as

_DEPENDENCIES = SessionDependency.objects.filter(session=OuterRef("pk")).order_by()
# The conditions of Dependency in SQL, for rows that name a session.
_ENDED = Q(after__ended_at__isnull=False)
_IMPOSSIBLE = _ENDED & (
    Q(when=When.SUCCESS) & ~ended_as(Ending.SUCCESS, "after__")
    | Q(when=When.FAILURE) & ~ended_as(Ending.FAILURE, "after__")
)


def settle_dependents(session_id: UUID) -> None:
    """Release sessions that depend on this ended session, or cancel those that can never start.

    May run twice, late or never.
    """
    _settle(_held().filter(Exists(_DEPENDENCIES.filter(after=session_id))))


def settle_after_array(array_id: UUID) -> None:
    """Release or cancel sessions that depend on this array, after the end of an element.

    May run twice, late or never.
    """
    ended, impossible = _array_conditions(_awaited_arrays().filter(pk=array_id))
    _settle(_held().filter(Exists(_DEPENDENCIES.filter(ended | impossible))))


def settle_all_dependents() -> None:
    """Release or cancel all dependents that are due, for ends that were missed in a crash."""
    ended, impossible = _array_conditions(_awaited_arrays())
    is_due = ~Exists(_DEPENDENCIES.exclude(_ENDED | ended)) | Exists(
        _DEPENDENCIES.filter(_IMPOSSIBLE | impossible)
    )
    _settle(_held().filter(is_due))


def _awaited_arrays() -> QuerySet[SessionArray]:
    return SessionArray.objects.filter(dependents__session__in=_held()).distinct()


def _array_conditions(arrays: QuerySet[SessionArray]) -> tuple[Q, Q]:
    """Return the conditions for rows that depend on these arrays: ended, and impossible to meet.

    At most 2 queries. Evaluated once for all rows, as a thousand may depend on one array.
    """
    found = list(arrays.order_by())
    progress = progress_by_array(found) if found else {}
    ended = {array_id for array_id, each in progress.items() if not each.live}
    not_well = {array_id for array_id, each in progress.items() if each.succeeded < each.ended}
    not_failed = {array_id for array_id in ended if not progress[array_id].failed}
    impossible = Q(after_array__in=not_well, when=When.SUCCESS) | Q(
        after_array__in=not_failed, when=When.FAILURE
    )
    return Q(after_array__in=ended), impossible


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.DEPENDENCY.value)
    return held


def _settle(sessions: ComputeSessionQuerySet) -> None:
    """Settle the sessions in creation order, in batches of one transaction each.

    So no row waits for all of them, nor the first elements of an array for its last.
    """
    found = list(sessions.order_by("created_at", "pk").values_list("pk", "array_id"))
    for first in range(0, len(found), holds.BATCH_SIZE):
        batch = dict(found[first : first + holds.BATCH_SIZE])
        _settle_some(batch.keys())
        for array_id in {each for each in batch.values() if each is not None}:
            release_elements(array_id)


@transaction.atomic
def _settle_some(session_ids: Collection[UUID]) -> None:
    rows = _held().filter(pk__in=session_ids).select_related("resource_group", "image", "array")
    held = list(rows.order_by("pk").select_for_update(of=("self",), skip_locked=True))
    held.sort(key=attrgetter("created_at", "pk"))
    impossible: dict[UUID, StoredMessage] = {}
    for session, dependencies in zip(held, dependencies_by_session(held), strict=True):
        cause = next((each for each in dependencies if each.is_impossible), None)
        if cause is None:
            _release_or_wait(session, dependency_message(dependencies, session.project_id))
        elif cause.after.project_id == session.project_id:
            impossible[session.pk] = cause.never
        else:
            impossible[session.pk] = REASON_SENTENCES[Reason.DEPENDENCY_IN_VAIN]
    # One statement: two would lock the counted limits of two domains in the order of these
    # sessions, not by level and scope (ADR 8).
    if impossible:
        transitions.transition_many(
            impossible,
            from_status=Status.PENDING,
            to=Status.CANCELLED,
            reason=Reason.DEPENDENCY_IN_VAIN,
            actor=SYSTEM,
            messages=impossible,
        )


def _release_or_wait(session: ComputeSession, waits_for: StoredMessage | None) -> None:
    if waits_for is None:
        holds.release_hold(session)
    elif waits_for != session.status_message:
        session.status_message = waits_for
        session.save(update_fields=["status_message"])
        updates.push_session_change(session)
