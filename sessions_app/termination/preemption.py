"""Preempts running sessions for waiting sessions of a higher priority.

Owners are notified, and the sessions end after their group's grace period. If the room is no longer
needed, the preemption is cancelled. The reconciler's round settles what is due, also after crashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, Q

from agents.models import AgentSlot
from common import clock
from common.actors import SYSTEM
from common.clock import ClockJump
from common.messaging.events import publish
from sessions_app.core.idle_rules import Cause
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import Reason, Status
from sessions_app.events import SessionEndsSoon
from sessions_app.lifecycle import updates
from sessions_app.lifecycle.expected_end import END_COLUMNS, expected_end, latest_removal
from sessions_app.models import (
    ComputeSession,
    KernelAllocation,
    Preemption,
    PreemptionOutcome,
    SessionWarning,
)
from sessions_app.termination.service import begin_termination

log = structlog.get_logger(__name__)
# Reason code of the scheduler for a session that only waits for its preemptions.
MAKING_ROOM = "making_room"


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Preemption of sessions on an agent for one waiting session."""

    by: UUID
    agent_id: int
    session_ids: tuple[UUID, ...]
    ends_at: datetime


def record_preemptions(plans: Sequence[PreemptionPlan]) -> None:
    """Record preemptions; call it in a transaction.

    Skips a preemption unless all its sessions run, are not preempted yet and are unlocked, and the
    preempting session still waits: it would be in vain.
    """
    if not plans:
        return
    now = clock.now()
    locked, waiting = _lock(plans)
    known = [plan for plan in plans if locked.keys() >= set(plan.session_ids) and plan.by in waiting]
    Preemption.objects.bulk_create(
        Preemption(
            session_id=session_id, by_id=plan.by, agent_id=plan.agent_id, decided_at=now, ends_at=plan.ends_at
        )
        for plan in known
        for session_id in plan.session_ids
    )
    leaving = {session_id: plan.ends_at for plan in known for session_id in plan.session_ids}
    _write_warnings(leaving, now)
    updates.push_sessions_changed([locked[session_id] for session_id in leaving], Status.RUNNING)
    for plan in known:
        session_ids = [str(session_id) for session_id in plan.session_ids]
        log.info(
            "preemption.notice", session_ids=session_ids, by=str(plan.by), ends_at=plan.ends_at.isoformat()
        )


def settle_preemptions(now: datetime) -> None:
    """End sessions whose grace period is over, and cancel preemptions that are no longer needed."""
    open_ones = Preemption.objects.filter(outcome=PreemptionOutcome.OPEN).order_by("pk")
    for pk, session_id, by_id in open_ones.values_list("pk", "session_id", "by_id"):
        _settle(pk, session_id, by_id, now)


def shift_timestamps(step: ClockJump) -> None:
    """Shift the ends of open preemptions after a clock jump, so that grace periods keep their length."""
    notices = Preemption.objects.filter(outcome=PreemptionOutcome.OPEN).exclude(step.is_since("decided_at"))
    notices.update(ends_at=F("ends_at") + step.by)


@transaction.atomic
def _settle(pk: int, session_id: UUID, by_id: UUID, now: datetime) -> None:
    both = ComputeSession.objects.select_for_update(of=("self",)).select_related("resource_group")
    locked = {each.pk: each for each in both.filter(pk__in=(session_id, by_id)).order_by("pk")}
    preemption = Preemption.objects.select_for_update().filter(pk=pk, outcome=PreemptionOutcome.OPEN).first()
    if preemption is None:
        return
    session, by = locked[session_id], locked[by_id]
    if session.status != Status.RUNNING:
        _close(preemption, PreemptionOutcome.ENDED)
    elif not (_is_still_needed(session, by) and _is_sufficient(preemption, by, now)):
        _close(preemption, PreemptionOutcome.SPARED)
        SessionWarning.objects.filter(session=session, cause=Cause.PREEMPTION, told_at=None).delete()
        updates.push_session_change(session)
    elif now >= preemption.ends_at and _grace_is_over(preemption, now):
        _close(preemption, PreemptionOutcome.ENDED)
        begin_termination(session_id, reason=Reason.PREEMPTED, actor=SYSTEM)


def _is_still_needed(session: ComputeSession, by: ComputeSession) -> bool:
    """Return True if `by` waits only for its preemptions and its group may still preempt `session`."""
    waits = by.status == Status.PENDING and by.held_for == Hold.NOTHING and by.stops_at is None
    starts = by.status_reason == MAKING_ROOM and by.resource_group.is_active
    up_to = by.resource_group.preemptible_priority
    gives_way = up_to is not None and session.priority <= up_to and session.priority < by.priority
    is_of_group = session.resource_group_id == by.resource_group_id
    return waits and starts and gives_way and is_of_group


def _is_sufficient(preemption: Preemption, by: ComputeSession, now: datetime) -> bool:
    """Return True if `by` would fit on the agent after all its preemptions and known ends.

    Sessions placed meanwhile may have taken some of the room.
    """
    preemptions = Preemption.objects.filter(by=by)
    if preemptions.filter(pk__gt=preemption.pk).exclude(agent=preemption.agent_id).exists():
        return False  # it took too long: other sessions are preempted instead
    there = AgentSlot.objects.filter(agent=preemption.agent_id, agent__resource_group=by.resource_group_id)
    room = dict(there.values_list("slot_name", F("capacity") + F("surplus") - F("occupied")))
    leaving = preemptions.filter(
        Q(outcome=PreemptionOutcome.OPEN) | Q(session__status=Status.TERMINATING.value)
    )
    preempted = set(leaving.values_list("session_id", flat=True))
    allocations = KernelAllocation.objects.filter(agent=preemption.agent_id)
    columns = ("slot_name", "amount", "kernel__session_id", *END_COLUMNS)
    gone_at = latest_removal(max(preemption.ends_at, now))
    for name, amount, session_id, *when in allocations.values_list(*columns):
        goes = session_id in preempted or _ends_between(expected_end(*when), now, gone_at)
        if goes and name in room:  # else the machine was moved to another group
            room[name] += amount
    return all(amount <= room.get(name, 0) for name, amount in by.slots.items())


def _ends_between(ends_at: datetime | None, now: datetime, gone_at: datetime) -> bool:
    """Return True if the session ends by `gone_at`; overdue ends do not count."""
    return ends_at is not None and ends_at <= gone_at and now < latest_removal(ends_at)


def _grace_is_over(preemption: Preemption, now: datetime) -> bool:
    """Return True if the owner was notified and has had the promised time since."""
    warnings = SessionWarning.objects.filter(
        session=preemption.session_id, cause=Cause.PREEMPTION, ends_at=preemption.ends_at
    )
    told = warnings.values_list("told_at", "mark_s")
    return all(at is not None and now >= at + timedelta(seconds=mark_s) for at, mark_s in told)


def _close(preemption: Preemption, outcome: PreemptionOutcome) -> None:
    preemption.outcome = outcome
    preemption.save(update_fields=["outcome"])
    log.info("preemption.settled", session_id=str(preemption.session_id), outcome=outcome.value)


def _lock(plans: Sequence[PreemptionPlan]) -> tuple[dict[UUID, updates.SessionAudience], set[UUID]]:
    """Lock the sessions, skipping locked rows.

    Returns running sessions without an open preemption, and ids of the waiting ones.
    """
    session_ids = {session_id for plan in plans for session_id in (plan.by, *plan.session_ids)}
    locked = ComputeSession.objects.filter(pk__in=session_ids).order_by("pk")
    rows = locked.select_for_update(skip_locked=True, no_key=True).values_list(
        "pk", "owner_id", "project_id", "domain_id", "status"
    )
    found = list(rows)
    running = {row[0]: row[:4] for row in found if row[4] == Status.RUNNING}
    leaving = Preemption.objects.filter(session__in=running, outcome=PreemptionOutcome.OPEN)
    for session_id in leaving.values_list("session_id", flat=True):
        del running[session_id]
    return running, {row[0] for row in found if row[4] == Status.PENDING}


def _write_warnings(leaving: dict[UUID, datetime], now: datetime) -> None:
    """Write the warnings; owners are notified after commit, or by the next round for missed ones."""
    SessionWarning.objects.bulk_create(
        [
            SessionWarning(
                session_id=session_id,
                cause=Cause.PREEMPTION.value,
                ends_at=ends_at,
                mark_s=max(0, int((ends_at - now).total_seconds())),  # planning takes some time
                warned_at=now,
            )
            for session_id, ends_at in leaving.items()
        ],
        ignore_conflicts=True,
    )
    for session_id in leaving:
        publish(SessionEndsSoon(session_id))
