"""What becomes of sessions that come after others once these end: into the queue, or their own end. Asked for by each end of what
others come after (`is_awaited`), and by reconciling for whatever that missed."""

from collections.abc import Collection
from operator import attrgetter
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from common.actors import SYSTEM
from common.values.stored_message import KeptSentence
from sessions_app.core.queue_options import Hold, When
from sessions_app.core.states import REASON_SENTENCES, Reason, Status
from sessions_app.lifecycle import transitions, updates
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionArray, SessionDependency
from sessions_app.queue import holds
from sessions_app.queue.array_release import release_elements
from sessions_app.queue.arrays import progress_of
from sessions_app.queue.dependencies import dependencies_of_each, hold_for
from sessions_app.queue.endings import Ending, ended_as

_THEIRS = SessionDependency.objects.filter(session=OuterRef("pk")).order_by()
# What Dependency says, of rows that name a session.
_ENDED = Q(after__ended_at__isnull=False)
_IN_VAIN = _ENDED & (
    Q(when=When.SUCCESS) & ~ended_as(Ending.SUCCESS, "after__")
    | Q(when=When.FAILURE) & ~ended_as(Ending.FAILURE, "after__")
)


def settle_dependents(session_id: UUID) -> None:
    """After the end of this one: let those that came after it into the queue, or end those that never can start. May run twice, late or
    never."""
    _settle(_held().filter(Exists(_THEIRS.filter(after=session_id))))


def settle_after_array(array_id: UUID) -> None:
    """The same of an array, after the end of any of its elements."""
    ended, in_vain = _of_arrays(_awaited_arrays().filter(pk=array_id))
    _settle(_held().filter(Exists(_THEIRS.filter(ended | in_vain))))


def settle_all() -> None:
    """Those that no end has found: whatever was lost with a process."""
    ended, in_vain = _of_arrays(_awaited_arrays())
    is_due = ~Exists(_THEIRS.exclude(_ENDED | ended)) | Exists(_THEIRS.filter(_IN_VAIN | in_vain))
    _settle(_held().filter(is_due))


def _awaited_arrays() -> QuerySet[SessionArray]:
    return SessionArray.objects.filter(dependents__session__in=_held()).distinct()


def _of_arrays(arrays: QuerySet[SessionArray]) -> tuple[Q, Q]:
    """What Dependency says, of rows that name one of these: that it has ended, and that it is awaited in vain. 2 queries at most.
    Looked at once for all rows, which may be a thousand for the same array."""
    found = list(arrays.order_by())
    progress = progress_of(found) if found else {}
    ended = {array_id for array_id, each in progress.items() if not each.live}
    not_well = {array_id for array_id, each in progress.items() if each.succeeded < each.ended}
    not_failed = {array_id for array_id in ended if not progress[array_id].failed}
    in_vain = Q(after_array__in=not_well, when=When.SUCCESS) | Q(
        after_array__in=not_failed, when=When.FAILURE
    )
    return Q(after_array__in=ended), in_vain


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.DEPENDENCY.value)
    return held


def _settle(sessions: ComputeSessionQuerySet) -> None:
    """As they were asked for, a batch a transaction: so nobody waits for all of them, and the first elements of an array not for its last."""
    found = list(sessions.order_by("created_at", "pk").values_list("pk", "array_id"))
    for first in range(0, len(found), holds.AT_ONCE):
        batch = dict(found[first : first + holds.AT_ONCE])
        _settle_some(batch.keys())
        for array_id in {each for each in batch.values() if each is not None}:
            release_elements(array_id)


@transaction.atomic
def _settle_some(session_ids: Collection[UUID]) -> None:
    rows = _held().filter(pk__in=session_ids).select_related("resource_group", "image", "array")
    held = list(rows.order_by("pk").select_for_update(of=("self",), skip_locked=True))
    held.sort(key=attrgetter("created_at", "pk"))
    in_vain: dict[UUID, KeptSentence] = {}
    for session, dependencies in zip(held, dependencies_of_each(held), strict=True):
        cause = next((each for each in dependencies if each.is_in_vain), None)
        if cause is None:
            _go_on_or_wait(session, hold_for(dependencies, session.project_id))
        elif cause.after.project_id == session.project_id:
            in_vain[session.pk] = cause.never
        else:
            in_vain[session.pk] = REASON_SENTENCES[Reason.DEPENDENCY_IN_VAIN]
    # By one statement: two would take what limits count of two domains in the order of these sessions, not of level and scope (ADR 8).
    if in_vain:
        transitions.transition_many(
            in_vain,
            frm=Status.PENDING,
            to=Status.CANCELLED,
            reason=Reason.DEPENDENCY_IN_VAIN,
            actor=SYSTEM,
            messages=in_vain,
        )


def _go_on_or_wait(session: ComputeSession, waits_for: KeptSentence | None) -> None:
    if waits_for is None:
        holds.go_on(session)
    elif waits_for != session.status_message:
        session.status_message = waits_for
        session.save(update_fields=["status_message"])
        updates.push_session_change(session)
