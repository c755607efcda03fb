"""Moves sessions between statuses; the only writer of the status.

Locks the rows, refuses illegal transitions, and writes status, deadline, allocations and history in
one transaction. Pages and other apps are notified when it commits.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Case, DateTimeField, DurationField, ExpressionWrapper, F, Q, Value, When
from django.db.models.functions import Coalesce

from common import clock
from common.actors import Actor
from common.clock import ClockJump
from common.db.fields import StoredMessageField
from common.errors import Conflict
from common.messaging.access_revocation import broadcast_revocation_on_commit
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.events import publish
from common.resilience.fault_points import pause
from common.values.stored_message import StoredMessage
from sessions_app.core.states import (
    DEADLINES_S,
    HOLDING,
    LATE_END,
    REASON_SENTENCES,
    Reason,
    Status,
    end_status,
    is_legal,
)
from sessions_app.events import CapacityReleased, SessionsEnded
from sessions_app.lifecycle.updates import audience_of, push_session_change, push_sessions_changed
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, SessionArray, SessionTransition

log = structlog.get_logger(__name__)

# Columns with a session's own limit for a status, in seconds; otherwise DEADLINES_S applies.
_OWN_LIMITS = {Status.PENDING: "pending_timeout_s", Status.RUNNING: "max_runtime_s"}

# One history row per session, copied in SQL from the session's row.
_WRITE_HISTORY = f"""
    INSERT INTO {SessionTransition._meta.db_table}
        (session_id, from_status, to_status, reason, message, actor_label, happened_at)
    SELECT id, %(from_status)s, status, status_reason, status_message, %(actor)s, status_changed_at
    FROM {ComputeSession._meta.db_table} WHERE id = ANY(%(ids)s::uuid[])
"""


class IllegalTransition(Conflict):
    """The session's status does not allow the transition."""

    default_code = "illegal_transition"


class _Moved(NamedTuple):
    """Columns of a session that changes its status."""

    id: UUID
    owner_id: int
    project_id: int
    domain_id: int
    resource_group_id: int
    array_id: UUID | None
    is_awaited: bool


@transaction.atomic
def transition(
    session_id: UUID,
    *,
    to: Status,
    reason: Reason,
    actor: Actor,
    message: StoredMessage | None = None,
    exit_code: int | None = None,
) -> ComputeSession:
    """Move one session to `to` and return its fresh row; a repeat changes nothing.

    `message` replaces the sentence of `reason`; `exit_code` is stored if given. A terminal status
    releases all allocations of its kernels in this transaction. Raises IllegalTransition,
    ComputeSession.DoesNotExist.
    """
    session = ComputeSession.objects.select_for_update().get(pk=session_id)
    current = Status(session.status)
    if current == to:
        return session
    if not is_legal(current, to):
        raise IllegalTransition(f"The session “{session.name}” is {current} and cannot become {to}.")
    moved = _Moved._make(getattr(session, column) for column in _Moved._fields)
    messages = {session_id: message} if message else {}
    _move([moved], current, to, reason=reason, actor=actor, messages=messages, exit_code=exit_code)
    session.refresh_from_db()
    return session


@transaction.atomic(savepoint=False)
def transition_many(
    session_ids: Collection[UUID],
    *,
    from_status: Status,
    to: Status,
    reason: Reason,
    actor: Actor,
    messages: Mapping[UUID, StoredMessage] | None = None,
    exit_code: int | None = None,
) -> list[UUID]:
    """Move those of the sessions that are in `from_status` to `to`; return the ids moved.

    Skips sessions that are locked or have moved, without waiting. `messages` replace the sentence
    of `reason` by session. 3 queries for any number of sessions; one more to release allocations,
    and one more if elements of arrays end. Raises IllegalTransition.
    """
    if not is_legal(from_status, to):
        raise IllegalTransition(f"No session that is {from_status} can become {to}.")
    if not session_ids:
        return []
    waiting = ComputeSession.objects.filter(pk__in=session_ids, status=from_status.value).order_by("pk")
    locked = waiting.select_for_update(no_key=True, skip_locked=True)
    moved = [_Moved._make(row) for row in locked.values_list(*_Moved._fields)]
    if moved:
        _move(
            moved, from_status, to, reason=reason, actor=actor, messages=messages or {}, exit_code=exit_code
        )
    return [each.id for each in moved]


def finish(session_id: UUID, *, actor: Actor) -> ComputeSession:
    """Move a TERMINATING session to the outcome and reason recorded when its termination began."""
    session = ComputeSession.objects.only("outcome", "outcome_reason").get(pk=session_id)
    reason = Reason(session.outcome_reason) if session.outcome_reason else Reason.ENGINE_REFUSED
    began = (
        SessionTransition.objects.filter(session=session_id, to_status=Status.TERMINATING)
        .order_by("pk")
        .last()
    )
    return transition(
        session_id,
        to=Status(session.outcome or Status.ERROR),
        reason=reason,
        actor=actor,
        message=began.message if began else None,
    )


@transaction.atomic
def postpone_end(session_id: UUID) -> None:
    """Give a TERMINATING session a new deadline and a message; it keeps its allocations."""
    session = ComputeSession.objects.select_for_update().get(pk=session_id)
    if session.status != Status.TERMINATING:
        return
    session.status_message = LATE_END
    session.deadline_at = clock.now() + timedelta(seconds=DEADLINES_S[Status.TERMINATING])
    session.save(update_fields=["status_message", "deadline_at"])
    log.error("end.late", session_id=str(session_id), since=session.status_changed_at.isoformat())
    push_session_change(session)


@transaction.atomic
def shift_timestamps(step: ClockJump) -> None:
    """Shift deadlines and queue times after a clock jump, keeping the order of the queue."""
    live = ComputeSession.objects.live()
    list(live.order_by("pk").select_for_update(no_key=True).values_list("pk"))  # lock in the order of ADR 8
    waited = ExpressionWrapper(F("pending_timeout_s") * timedelta(seconds=1), output_field=DurationField())
    known = live.annotate(
        waits_from=ExpressionWrapper(F("deadline_at") - waited, output_field=DateTimeField()),
        queued_at=Coalesce("eligible_at", "created_at"),
    )
    is_waiting = Q(status=Status.PENDING.value)
    # A session released into the queue after the jump has its full waiting time already.
    has_all_its_time = step.is_since("status_changed_at") | (is_waiting & step.is_since("waits_from"))
    known.update(
        deadline_at=step.shifted("deadline_at", unless=has_all_its_time),
        status_changed_at=step.shifted("status_changed_at"),
        stops_at=step.shifted("stops_at"),
        eligible_at=Case(
            When(is_waiting & ~step.is_since("queued_at"), then=F("queued_at") + step.by),
            default=F("eligible_at"),
        ),
    )


def _move(
    moved: Sequence[_Moved],
    from_status: Status,
    to: Status,
    *,
    reason: Reason,
    actor: Actor,
    messages: Mapping[UUID, StoredMessage],
    exit_code: int | None,
) -> None:
    """Write the legal transition of these locked sessions from `from_status` to `to`."""
    now = clock.now()
    if from_status in HOLDING and to not in HOLDING:
        _release(moved)  # before the status: agent slots are locked before counted limits (ADR 8)
    changes = _changes(to, reason, messages, now) | ({} if exit_code is None else {"exit_code": exit_code})
    ids = [each.id for each in moved]
    # One statement: it locks counted limits by level and scope, not by session (ADR 8).
    ComputeSession.objects.filter(pk__in=ids).update(**changes)
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_HISTORY, {"ids": ids, "from_status": from_status.value, "actor": actor.label})
    _notify(moved, from_status, to, reason, actor)


def _changes(
    to: Status, reason: Reason, messages: Mapping[UUID, StoredMessage], now: datetime
) -> dict[str, Any]:
    """Return the columns of a session that enters `to`, as `update` takes them."""
    changes: dict[str, Any] = {
        "status": to.value,
        "status_reason": reason.value,
        "status_message": _message(reason, messages),
        "status_changed_at": now,
        "deadline_at": _deadline(to, now),
        "queue_position": None,
    }
    if to is Status.RUNNING:
        changes["started_at"] = now
    if to is Status.TERMINATING:
        changes |= {"outcome": end_status(reason).value, "outcome_reason": reason.value}
    if to.is_terminal:
        changes["ended_at"] = now
    return changes


def _message(reason: Reason, messages: Mapping[UUID, StoredMessage]) -> Any:
    field = StoredMessageField()
    own = [When(pk=session_id, then=Value(message, field)) for session_id, message in messages.items()]
    return Case(*own, default=Value(REASON_SENTENCES[reason], field)) if own else REASON_SENTENCES[reason]


def _deadline(to: Status, now: datetime) -> Any:
    """Return the instant by which a session that enters `to` now must leave it; None if terminal."""
    if to.is_terminal:
        return None
    if to not in _OWN_LIMITS:
        return now + timedelta(seconds=DEADLINES_S[to])
    span = Coalesce(_OWN_LIMITS[to], Value(DEADLINES_S[to])) * Value(timedelta(seconds=1))
    lasts = ExpressionWrapper(span, DurationField())
    return ExpressionWrapper(Value(now, DateTimeField()) + lasts, DateTimeField())


def _release(moved: Sequence[_Moved]) -> None:
    """Delete the allocations of these sessions; a trigger returns the amounts to the agents."""
    kernels = Kernel.objects.filter(session__in=[each.id for each in moved])
    deleted, _ = KernelAllocation.objects.filter(kernel__in=kernels).delete()
    if deleted:
        for group_id in {each.resource_group_id for each in moved}:
            publish(CapacityReleased(resource_group_id=group_id))


def _notify(moved: Sequence[_Moved], from_status: Status, to: Status, reason: Reason, actor: Actor) -> None:
    if from_status is Status.RUNNING:
        broadcast_revocation_on_commit()
    push_sessions_changed(map(audience_of, moved), to)
    if to.is_terminal:
        publish(SessionsEnded(tuple(each.id for each in moved)))
        for each in moved:
            if each.is_awaited:
                enqueue_on_commit(TaskName.SETTLE_DEPENDENTS, session_id=str(each.id))
        if array_ids := {each.array_id for each in moved if each.array_id is not None}:
            # After the commit, so that a dependency added meanwhile is seen, or sees the end itself.
            transaction.on_commit(partial(_advance_arrays, array_ids), robust=True)
    transaction.on_commit(partial(_log_moves, moved, from_status, to, reason, actor))


def _advance_arrays(array_ids: Collection[UUID]) -> None:
    """Enqueue LOOK_AT_ARRAY for the arrays with a throttle or dependents: the next element may be
    released, and dependents may start.
    """
    looked_at = Q(most_at_once__isnull=False) | Q(is_awaited=True)
    for array in SessionArray.objects.filter(looked_at, pk__in=array_ids).order_by():
        enqueue_on_commit(TaskName.LOOK_AT_ARRAY, array_id=str(array.pk))


def _log_moves(
    moved: Sequence[_Moved], from_status: Status, to: Status, reason: Reason, actor: Actor
) -> None:
    log.info(
        "session.transitions",
        session_ids=[str(each.id) for each in moved],
        frm=from_status.value,
        to=to.value,
        reason=reason.value,
        actor=actor.label,
    )
    pause(to)
