"""The one door for a session's status: row lock, legality, history, deadline, ledger, news."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Case, DateTimeField, DurationField, ExpressionWrapper, F, Q, When
from django.db.models.functions import Coalesce
from psycopg.types.json import Jsonb

from common import clock
from common.actors import Actor
from common.dispatch import TaskName, enqueue_on_commit
from common.errors import Conflict
from common.events import announce
from common.instants import Step
from common.kept_sentences import KeptSentence
from common.pauses import pause
from common.prepared import array_of, prepared_cursor
from common.push import Audience, push_many_on_commit, push_on_commit
from common.revocations import ring_on_commit
from sessions_app import array_ends
from sessions_app.events import CapacityReleased, SessionsEnded
from sessions_app.lifecycle_statements import (
    CANCEL_MANY,
    FINISH_MANY,
    HOLD_ENDING,
    RELEASE_MANY,
    move_many,
    said_along,
)
from sessions_app.models import ComputeSession, KernelAllocation, SessionTransition
from sessions_app.states import (
    DEADLINES_S,
    LATE_END,
    REASON_SENTENCES,
    REQUEUED,
    RETRIED,
    Reason,
    Status,
    is_legal,
    outcome_of,
)

log = structlog.get_logger(__name__)
_TRIED_AGAIN = {"retried": [each.value for each in RETRIED], "requeued": [each.value for each in REQUEUED]}
_MOVED_FIELDS = (
    "status", "status_reason", "status_message", "status_changed_at", "deadline_at",
    "outcome", "outcome_reason", "queue_position", "exit_code", "started_at", "ended_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class First:
    """Rows that are written before sessions move: `parts` as `move_many` has them, with their values."""

    parts: str
    values: Mapping[str, Any]


Told = tuple[UUID, int, int, int]  # a session, and whose it is: owner, project, domain
_CHANGED = "session-changed"


class IllegalTransition(Conflict):
    """The session is in a status from which there is no way to the wanted one."""

    default_code = "illegal_transition"


@transaction.atomic
def transition(
    session_id: UUID,
    *,
    to: Status,
    reason: Reason,
    actor: Actor,
    message: KeptSentence | None = None,
    exit_code: int | None = None,
) -> ComputeSession:
    """Move one session to `to` and return its fresh row; a repeat changes nothing.

    `message` replaces the sentence of `reason`. `exit_code`, if given, is kept. Moving to a terminal status releases
    all that its kernels hold, in this transaction. Raises IllegalTransition, ComputeSession.DoesNotExist.
    """
    session = ComputeSession.objects.select_for_update().get(pk=session_id)
    current = Status(session.status)
    if current == to:
        return session
    if not is_legal(current, to):
        raise IllegalTransition(f"The session “{session.name}” is {current} and cannot become {to}.")
    _move(session, to=to, reason=reason, actor=actor, message=message, exit_code=exit_code)
    return session


def transition_many(
    session_ids: Collection[UUID],
    *,
    frm: Status,
    to: Status,
    reason: Reason,
    actor: Actor,
    exit_code: int | None = None,
    first: First | None = None,
) -> list[UUID]:
    """Move all of these that are still in `frm`; ids of the moved ones. 1 query, any number of sessions.

    Sessions that somebody else holds or moved meanwhile are left out, without waiting. What is to be written `first` is a part of the
    statement, whether or not any of them are moved.
    """
    return transition_along(
        session_ids, frm=frm, steps=[(to, reason)], actor=actor, exit_code=exit_code, first=first
    )


@transaction.atomic(savepoint=False)
def transition_along(
    session_ids: Collection[UUID],
    *,
    frm: Status,
    steps: Sequence[tuple[Status, Reason]],
    actor: Actor,
    exit_code: int | None = None,
    first: First | None = None,
) -> list[UUID]:
    """The same through all of these statuses, between which nothing is done: each has its line of history, at one instant. 1 query."""
    path = (frm, *(to for to, _reason in steps))
    if any(not is_legal(*move) or move[1].is_terminal for move in pairwise(path)):
        raise IllegalTransition(f"{' → '.join(path)} is no way for many sessions at once.")
    now, (to, reason) = clock.now(), steps[-1]
    message, lines = said_along(path, tuple(why for _to, why in steps))
    values: dict[str, Any] = {
        "ids": array_of(session_ids), "frm": frm.value, "to": to.value, "reason": reason.value, "now": now,
        "message": message, "actor": actor.label, "steps": lines,
        "lasts_s": DEADLINES_S[to], "exit_code": exit_code,
        "outcome": outcome_of(reason).value if to is Status.TERMINATING else None,
        "outcome_reason": reason.value if to is Status.TERMINATING else None,
    }  # fmt: skip
    with prepared_cursor() as cursor:
        cursor.execute(move_many(first.parts if first else ""), {**values, **(first.values if first else {})})
        moved = cursor.fetchall()
    transaction.on_commit(partial(_tell_many, moved, path, steps, actor))
    if frm is Status.RUNNING and moved:
        ring_on_commit()
    return [row[0] for row in moved]


@transaction.atomic
def finish_many(session_ids: Collection[UUID], *, actor: Actor) -> list[UUID]:
    """`finish` for all of these that are TERMINATING; ids of the ended ones. 3 queries, one more where there are arrays, any number of sessions. Those that
    somebody else holds, and those that may be tried again (`retries`), are left out."""
    with prepared_cursor() as cursor:
        cursor.execute(HOLD_ENDING, {"ids": list(session_ids), **_TRIED_AGAIN})
        held = [row[0] for row in cursor.fetchall()]
        # Before the statuses: slots of agents are locked before what limits count (ADR 8).
        cursor.execute(RELEASE_MANY, {"ids": held})
        sentences = {reason.value: said.to_json() for reason, said in REASON_SENTENCES.items()}
        values: dict[str, Any] = {"ids": held, "actor": actor.label, "now": clock.now()}
        values["sentences"] = Jsonb(sentences)
        cursor.execute(FINISH_MANY, values)
        rows = cursor.fetchall()
    for group_id in {row[1] for row in rows}:
        announce(CapacityReleased(resource_group_id=group_id))
    _tell_ended(rows, actor)
    transaction.on_commit(lambda: pause(Status.TERMINATED))
    return [row[3] for row in rows]


@transaction.atomic(savepoint=False)
def cancel_many(
    session_ids: Collection[UUID],
    *,
    reason: Reason,
    actor: Actor,
    messages: Mapping[UUID, KeptSentence] | None = None,
) -> list[UUID]:
    """CANCELLED for all of these that are PENDING, with the sentence of the reason, or `messages` of their own; ids of those. 1 query, one
    more where there are arrays, any number of sessions. Those that somebody else holds are left out, without waiting."""
    own = {str(session_id): message.to_json() for session_id, message in (messages or {}).items()}
    values: dict[str, Any] = {
        "ids": list(session_ids), "reason": reason.value, "message": Jsonb(REASON_SENTENCES[reason].to_json()),
        "messages": Jsonb(own), "actor": actor.label, "now": clock.now(),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(CANCEL_MANY, values)
        rows = cursor.fetchall()
    _tell_ended(rows, actor)
    transaction.on_commit(lambda: pause(Status.CANCELLED))
    return [row[3] for row in rows]


def finish(session_id: UUID, *, actor: Actor) -> ComputeSession:
    """Move a TERMINATING session to the end that was decided when it began to end, for the cause told then."""
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
    """Give a TERMINATING session another deadline, and say why it has not ended; it keeps what it holds."""
    session = ComputeSession.objects.select_for_update().get(pk=session_id)
    if session.status != Status.TERMINATING:
        return
    session.status_message = LATE_END
    session.deadline_at = _deadline(session, Status.TERMINATING, clock.now())
    session.save(update_fields=["status_message", "deadline_at"])
    log.error("end.late", session_id=str(session_id), since=session.status_changed_at.isoformat())
    push_session_change(session)


@transaction.atomic
def shift_instants(step: Step) -> None:
    """The clock was set: deadlines that were written before move along, and who queued first is still first."""
    live = ComputeSession.objects.live()
    list(live.order_by("pk").select_for_update(no_key=True).values_list("pk"))  # as all do (ADR 8)
    waited = ExpressionWrapper(F("pending_timeout_s") * timedelta(seconds=1), output_field=DurationField())
    known = live.annotate(
        waits_from=ExpressionWrapper(F("deadline_at") - waited, output_field=DateTimeField()),
        queued_at=Coalesce("eligible_at", "created_at"),
    )
    is_waiting = Q(status=Status.PENDING.value)
    # Who was let into the queue since has the whole time to wait, but stands in its status for longer.
    has_all_its_time = step.is_since("status_changed_at") | (is_waiting & step.is_since("waits_from"))
    known.update(
        deadline_at=step.moves("deadline_at", unless=has_all_its_time),
        status_changed_at=step.moves("status_changed_at"),
        stops_at=step.moves("stops_at"),
        eligible_at=Case(
            When(is_waiting & ~step.is_since("queued_at"), then=F("queued_at") + step.by),
            default=F("eligible_at"),
        ),
    )


def _move(
    session: ComputeSession,
    *,
    to: Status,
    reason: Reason,
    actor: Actor,
    message: KeptSentence | None,
    exit_code: int | None,
) -> None:
    now = clock.now()
    line = SessionTransition(
        session=session,
        from_status=session.status,
        to_status=to.value,
        reason=reason.value,
        message=message or REASON_SENTENCES[reason],
        actor_label=actor.label,
        happened_at=now,
    )
    _set_fields(session, to=to, reason=reason, message=message, exit_code=exit_code, now=now)
    if to.is_terminal or to is Status.PENDING:
        _release(session)  # before the status: slots of agents are locked before what limits count (ADR 8)
    session.save(update_fields=_MOVED_FIELDS)
    line.save(force_insert=True)
    _tell(session, line)
    transaction.on_commit(lambda: pause(to))


def _set_fields(
    session: ComputeSession,
    *,
    to: Status,
    reason: Reason,
    message: KeptSentence | None,
    exit_code: int | None,
    now: datetime,
) -> None:
    session.status = to.value
    session.status_reason = reason.value
    session.status_message = message or REASON_SENTENCES[reason]
    session.status_changed_at = now
    session.queue_position = None
    session.deadline_at = _deadline(session, to, now)
    if exit_code is not None:
        session.exit_code = exit_code
    if to is Status.RUNNING:
        session.started_at = now
    if to is Status.TERMINATING:
        session.outcome = outcome_of(reason).value
        session.outcome_reason = reason.value
    if to.is_terminal:
        session.ended_at = now


def _deadline(session: ComputeSession, to: Status, now: datetime) -> datetime | None:
    if to.is_terminal:
        return None
    asked = [seconds for seconds in (session.timeout_s, session.lifetime_s) if seconds]
    if to is Status.RUNNING and asked:
        return now + timedelta(seconds=min(asked))
    if to is Status.PENDING and session.pending_timeout_s:
        return now + timedelta(seconds=session.pending_timeout_s)
    return now + timedelta(seconds=DEADLINES_S[to])


def _release(session: ComputeSession) -> None:
    released = KernelAllocation.objects.filter(kernel__session=session)
    # Deleting the rows is the release: the database gives the amounts back to the agents in the same statement.
    if released._raw_delete(released.db):
        announce(CapacityReleased(resource_group_id=session.resource_group_id))


def _tell(session: ComputeSession, line: SessionTransition) -> None:
    log.info(
        "session.transition",
        session_id=str(session.pk),
        frm=line.from_status,
        to=line.to_status,
        reason=line.reason,
        actor=line.actor_label,
    )
    if line.from_status == Status.RUNNING:
        ring_on_commit()
    push_session_change(session)
    if Status(line.to_status).is_terminal:
        announce(SessionsEnded((session.pk,)))
        if session.is_awaited:
            enqueue_on_commit(TaskName.SETTLE_DEPENDENTS, session_id=str(session.pk))
        array_ends.look_on_commit({session.array_id})


def _tell_many(
    moved: Sequence[Told], path: Sequence[Status], steps: Sequence[tuple[Status, Reason]], actor: Actor
) -> None:
    """After the commit, which waits for none of it: others wait for the rows. First the pages, before which people sit."""
    for to in path[1:]:
        pause(to)
    push_sessions_changed(moved, path[-1])
    ids = [str(row[0]) for row in moved]
    for was, (to, why) in zip(path, steps, strict=False):
        told = {"frm": was.value, "to": to.value, "reason": why.value}
        log.info("session.transitions", session_ids=ids, actor=actor.label, **told)


def _tell_ended(rows: Sequence[Any], actor: Actor) -> None:
    """Of many, as the statements of their ends return them."""
    for status in {row[0] for row in rows}:
        told = [row[3:7] for row in rows if row[0] == status]
        log.info(
            "session.transitions", session_ids=[str(row[0]) for row in told], to=status, actor=actor.label
        )
        push_sessions_changed(told, Status(status))
        announce(SessionsEnded(tuple(row[0] for row in told)))
    for row in rows:
        if row[2]:
            enqueue_on_commit(TaskName.SETTLE_DEPENDENTS, session_id=str(row[3]))
    array_ends.look_on_commit({row[7] for row in rows})


def push_session_change(session: ComputeSession) -> None:
    """Tell open pages that this session looks different now."""
    push_on_commit(
        _CHANGED,
        audience=Audience(
            owner_id=session.owner_id, project_id=session.project_id, domain_id=session.domain_id
        ),
        payload={"id": str(session.pk), "status": session.status},
    )


def push_sessions_changed(told: Sequence[Told], status: Status) -> None:
    """The same of many sessions, all in `status`."""
    push_many_on_commit(
        _CHANGED,
        [
            (Audience(owner_id, project_id, domain_id), {"id": str(session_id), "status": status.value})
            for session_id, owner_id, project_id, domain_id in told
        ],
    )
