"""What becomes of sessions that come after others once these end: into the queue, or their own end. Asked for by each end of what
others come after (`is_awaited`), and by reconciling for whatever that missed."""

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from common.actors import SYSTEM
from common.kept_sentences import KeptSentence
from sessions_app import holds, lifecycle
from sessions_app.array_services import progress_of
from sessions_app.arrays import release_elements
from sessions_app.dependencies import Dependency, dependencies_of_each, hold_for
from sessions_app.models import (
    ComputeSession,
    ComputeSessionQuerySet,
    SessionArray,
    SessionDependency,
    SessionType,
)
from sessions_app.queueing import Hold, When
from sessions_app.states import Reason, Status

_THEIRS = SessionDependency.objects.filter(session=OuterRef("pk")).order_by()
# What Dependency says, of rows that name a session.
_SUCCEEDED = Q(after__status_reason=Reason.COMMAND_FINISHED) | (
    ~Q(after__type=SessionType.BATCH) & Q(after__status=Status.TERMINATED)
)
_ENDED = Q(after__ended_at__isnull=False)
_IN_VAIN = _ENDED & (Q(when=When.SUCCESS) & ~_SUCCEEDED | Q(when=When.FAILURE) & _SUCCEEDED)


def settle_dependents(session_ids: Sequence[UUID]) -> None:
    """After the ends of these: let those that came after them, or after their arrays, into the queue, or end those that never can
    start. May run twice, late or never."""
    ended, in_vain = _of_arrays(_awaited_arrays().filter(elements__in=session_ids))
    _settle(_held().filter(Exists(_THEIRS.filter(Q(after__in=session_ids) | ended | in_vain))))


def settle_all() -> None:
    """Those that no end has found: whatever was lost with a process."""
    ended, in_vain = _of_arrays(_awaited_arrays())
    is_due = ~Exists(_THEIRS.exclude(_ENDED | ended)) | Exists(_THEIRS.filter(_IN_VAIN | in_vain))
    _settle(_held().filter(is_due))


def _awaited_arrays() -> QuerySet[SessionArray]:
    return SessionArray.objects.filter(dependents__session__in=_held()).distinct()


def _of_arrays(arrays: QuerySet[SessionArray]) -> tuple[Q, Q]:
    """What Dependency says, of rows that name one of these: that it has ended, and that it is awaited in vain. 2 queries. Looked at
    once for all rows, which may be a thousand for the same array."""
    progress = progress_of(list(arrays.order_by()))
    ended = {array_id for array_id, each in progress.items() if not each.live}
    failed = {array_id for array_id, each in progress.items() if each.succeeded < each.ended}
    in_vain = Q(after_array__in=failed, when=When.SUCCESS)
    return Q(after_array__in=ended), in_vain | Q(after_array__in=ended - failed, when=When.FAILURE)


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.DEPENDENCY.value)
    return held


def _settle(sessions: ComputeSessionQuerySet) -> None:
    """A batch a transaction, so that nobody waits for all of them, and the first elements of an array not for its last."""
    found = sorted(sessions.values_list("pk", "array_id").distinct())
    for first in range(0, len(found), holds.AT_ONCE):
        batch = dict(found[first : first + holds.AT_ONCE])
        _settle_some(batch.keys())
        for array_id in {each for each in batch.values() if each is not None}:
            release_elements(array_id)


@transaction.atomic
def _settle_some(session_ids: Collection[UUID]) -> None:
    rows = _held().filter(pk__in=session_ids).select_related("resource_group", "image", "array")
    held = list(rows.order_by("pk").select_for_update(of=("self",), skip_locked=True))
    in_vain: dict[tuple[Dependency, bool], list[UUID]] = {}
    for session, dependencies in zip(held, dependencies_of_each(held), strict=True):
        cause = next((each for each in dependencies if each.is_in_vain), None)
        if cause is None:
            _go_on_or_wait(session, hold_for(dependencies, session.project_id))
        else:
            is_told = cause.after.project_id == session.project_id
            in_vain.setdefault((cause, is_told), []).append(session.pk)
    for (cause, is_told), ids in in_vain.items():
        message = cause.never if is_told else None
        lifecycle.cancel_many(ids, reason=Reason.DEPENDENCY_IN_VAIN, actor=SYSTEM, message=message)


def _go_on_or_wait(session: ComputeSession, waits_for: KeptSentence | None) -> None:
    if waits_for is None:
        holds.go_on(session)
    elif waits_for != session.status_message:
        session.status_message = waits_for
        session.save(update_fields=["status_message"])
        lifecycle.push_session_change(session)
