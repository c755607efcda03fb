"""Idle enforcer: warns owners of sessions that a limit will end, and ends those sessions later.

Limits are idle timeout, minimum utilisation and lifetime. Runs in the reconciler's round, which
first shifts all timestamps if the clock jumped. Safe if it runs twice, late or never: a session
never ends for a quantity that is not measured or without a notified owner.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, Q

from accounts.core.limits import Limit
from accounts.models import ResourcePolicy
from agents.core.states import AgentState
from common.actors import SYSTEM
from common.clock import ClockJump
from common.messaging.events import publish
from sessions_app.core.idle_rules import (
    NEAR,
    Cause,
    End,
    MinimumUtilization,
    expected_ends,
    is_still_missed,
    max_utilization,
    may_end,
    warning_due,
)
from sessions_app.core.states import Reason, Status
from sessions_app.events import SessionEndsSoon
from sessions_app.idle.facts import (
    THRESHOLDS,
    Scopes,
    idle_facts,
    idle_row,
    limit_values,
    required_utilization,
    scopes_by_key,
    thresholds_from_json,
    thresholds_to_json,
)
from sessions_app.idle.utilization import (
    RECENT,
    Measurement,
    computing_on_cpu,
    computing_on_devices,
    utilization_by_session,
)
from sessions_app.lifecycle import updates
from sessions_app.metrics.accelerators import device_milli_of
from sessions_app.models import (
    ComputeSession,
    Gap,
    GatewayReport,
    IdleWatch,
    Interaction,
    SessionIdle,
    SessionType,
    SessionWarning,
)
from sessions_app.termination.service import begin_termination

log = structlog.get_logger(__name__)

ROUND = timedelta(seconds=10)
MAX_REPORT_GAP = timedelta(seconds=60)
"""Maximum gap between reports of a gateway, and between rounds, before user activity is unknown."""
GATEWAY_GONE_AFTER = timedelta(minutes=10)
"""Age of the last report after which a gateway counts as ended."""

REASONS = {
    Cause.LIFETIME: Reason.LIFETIME_OVER,
    Cause.INTERACTION: Reason.UNUSED,
    Cause.USE: Reason.UNDERUSED,
}
_LIMIT_COLUMNS = ("max_idle_s", *THRESHOLDS.values())  # columns of groups and of policies
_FACT_COLUMNS = (
    "measured_from",
    "gap",
    "max_idle_s",
    "use_from",
    "low_since",
    "use",
    "thresholds",
    "use_grace_s",
)


def enforce_idle_limits(now: datetime) -> None:
    """Run one round over running sessions with a limit: update facts, write warnings, end sessions.

    9 queries and at most 7 more for any number of sessions and windows, and some for each session
    that is active, warned or ended.
    """
    if not _begin_round(now):
        return
    sessions = list(_limited_sessions(now))
    _update_facts(sessions, now)
    due = _write_due_warnings(sessions, now)
    for session, end in due:
        end_if_due(session.pk, end.cause, now)


def _begin_round(now: datetime) -> bool:
    """Start a round; return False if the last one was less than ROUND ago.

    If rounds or all gateway reports paused for longer than MAX_REPORT_GAP, resets all measurements.
    """
    with transaction.atomic():
        watch, _is_new = IdleWatch.objects.select_for_update().get_or_create(pk=1)
        if watch.judged_at is not None and timedelta(0) <= now - watch.judged_at < ROUND:
            return False
        is_blind = (
            watch.judged_at is None or now - watch.judged_at > MAX_REPORT_GAP or not _any_gateway_reports(now)
        )
        watch.judged_at = now
        watch.save(update_fields=["judged_at"])
        if is_blind:
            SessionIdle.objects.filter(session__status=Status.RUNNING).exclude(measured_from=None).update(
                measured_from=None, low_since=None
            )
    return True


def _all_gateways_report(now: datetime) -> bool:
    """Return True if no gateway is silent, because activity through a silent one is unknown.

    A gateway that ends deletes its report; a killed one is ignored after GATEWAY_GONE_AFTER.
    """
    times = GatewayReport.objects.filter(reported_at__gt=now - GATEWAY_GONE_AFTER).values_list(
        "reported_at", flat=True
    )
    return min(times, default=now - MAX_REPORT_GAP) > now - MAX_REPORT_GAP


def _any_gateway_reports(now: datetime) -> bool:
    """Return True if at least one gateway reported within MAX_REPORT_GAP."""
    return GatewayReport.objects.filter(reported_at__gt=now - MAX_REPORT_GAP).exists()


def _limited_sessions(now: datetime) -> Iterable[ComputeSession]:
    """Return the running sessions that a limit could end, or that still show an end."""
    running = ComputeSession.objects.filter(status=Status.RUNNING)
    # Limits that were removed since the last round: the stored end must be cleared.
    was_judged = ~Q(idle__max_idle_s=None) | ~Q(idle__low_since=None)
    was_judged |= Q(idle__isnull=False) & ~Q(idle__thresholds=[])
    if not ResourcePolicy.objects.filter(_has_limit()).exists():
        has_limit = _has_limit("resource_group__")
        running = running.filter(has_limit | Q(deadline_at__lte=now + NEAR) | was_judged)
    return running.select_related("resource_group", "idle").prefetch_related("kernels__agent").order_by("pk")


def _has_limit(row: str = "") -> Q:
    return reduce(or_, (~Q(**{f"{row}{column}": None}) for column in _LIMIT_COLUMNS))


def _update_facts(sessions: Sequence[ComputeSession], now: datetime) -> None:
    """Update the idle facts of the sessions."""
    missing = [SessionIdle(session=session) for session in sessions if not hasattr(session, "idle")]
    SessionIdle.objects.bulk_create(missing, ignore_conflicts=True)  # a gateway may have inserted it already
    scopes = scopes_by_key(sessions)
    is_reported = _all_gateways_report(now)
    before = {}
    for session in sessions:
        if not hasattr(session, "idle"):
            session.idle = SessionIdle(session_id=session.pk)  # type: ignore[attr-defined]
        before[session.pk] = _values(idle_row(session))
        _update_activity(session, scopes, now, is_reported=is_reported)
    _update_utilization({session: required_utilization(session, scopes) for session in sessions}, now)
    _record_programs(sessions, now)
    changed = [idle for session in sessions if _values(idle := idle_row(session)) != before[session.pk]]
    SessionIdle.objects.bulk_update(changed, _FACT_COLUMNS, batch_size=1000)


def _values(idle: SessionIdle) -> tuple[object, ...]:
    return tuple(getattr(idle, name) for name in _FACT_COLUMNS)


def _update_activity(session: ComputeSession, scopes: Scopes, now: datetime, *, is_reported: bool) -> None:
    idle = idle_row(session)
    idle.max_idle_s = max_idle_s(session, scopes)
    if not _machines_answer(session):
        idle.gap = Gap.MACHINE
    elif not is_reported:
        idle.gap = Gap.GATEWAY
    else:
        idle.gap = Gap.NONE
    if idle.gap:
        idle.measured_from = None
    elif idle.measured_from is None:
        is_fresh = session.started_at is not None and now - session.started_at < MAX_REPORT_GAP
        idle.measured_from = session.started_at if is_fresh else now


def max_idle_s(session: ComputeSession, scopes: Scopes) -> int | None:
    """Return the shortest idle timeout of its group and all policies.

    None without a timeout, and for batch sessions, which expect no user activity.
    """
    if session.type == SessionType.BATCH:
        return None
    own = session.resource_group.max_idle_s
    found = limit_values(session, scopes, Limit.IDLE_TIMEOUT)
    return min(found if own is None else [own, *found], default=None)


def _machines_answer(session: ComputeSession) -> bool:
    agents = [kernel.agent for kernel in session.kernels.all()]
    return all(agent is not None and agent.state != AgentState.LOST for agent in agents)


def _update_utilization(least_uses: Mapping[ComputeSession, MinimumUtilization], now: datetime) -> None:
    """Compare utilisation with the minimum over the shortest window of the group and the policies.

    A session that is under-utilised is also measured over the last minutes (RECENT), so that work
    that resumes counts at once. If those minutes are not measured, it counts as recovered.
    """
    ready = [
        Measurement(session, least.window)
        for session, least in least_uses.items()
        if least.is_wanted and _machines_answer(session) and _has_window(session, least.window, now)
    ]
    means = utilization_by_session(ready, now)
    low = [Measurement(each.session, RECENT) for each in ready if idle_row(each.session).low_since]
    recent = utilization_by_session(low, now)
    for session, least in least_uses.items():
        idle = idle_row(session)
        used, wanted = idle.use, thresholds_from_json(idle)
        idle.thresholds, idle.use_grace_s = thresholds_to_json(least), least.policies_grace_s
        idle.use = means.get(session.pk, {})
        still = max_utilization(idle.use, recent.get(session.pk, {}))
        if idle.low_since is None:
            idle.low_since = now if least.is_missed_by(idle.use) else None
        elif not least.is_missed_by(still):
            idle.low_since, idle.use_from = None, now
        elif not is_still_missed(used, wanted, still, thresholds_from_json(idle)):
            idle.low_since = now  # for another threshold, without a warning yet: its grace begins


def _record_programs(sessions: Sequence[ComputeSession], now: datetime) -> None:
    """Count running programs as activity in sessions whose idle timeout is near.

    A notebook or a terminal may compute without any user activity. If that was not measured
    recently, the idle time starts anew.
    """
    near = [session for session in sessions if _is_nearly_idle(session, now)]
    recent = [Measurement(session, RECENT) for session in near]
    computes = computing_on_cpu(recent, now)
    on_devices = computing_on_devices([each for each in recent if device_milli_of(each.session.slots)], now)
    for session in near:
        session_id, idle = session.pk, idle_row(session)
        if not computes[session_id] and session_id not in on_devices:
            if computes[session_id] is None:
                idle.gap, idle.measured_from = Gap.USE, None
            continue
        idle.interacted_at, idle.interaction = now, Interaction.PROGRAM
        SessionIdle.objects.record_activity(session_id, Interaction.PROGRAM, now)


def _is_nearly_idle(session: ComputeSession, now: datetime) -> bool:
    ends = expected_ends(idle_facts(session, idle_row(session)))
    return any(end.cause is Cause.INTERACTION and end.at - now <= NEAR for end in ends)


def _has_window(session: ComputeSession, window: timedelta, now: datetime) -> bool:
    began = session.started_at or now
    return now - max(began, idle_row(session).use_from or began) >= window


def _write_due_warnings(
    sessions: Sequence[ComputeSession], now: datetime
) -> list[tuple[ComputeSession, End]]:
    """Write the warnings that are due; return the sessions and ends whose time may be over."""
    ends = {session: expected_ends(idle_facts(session, idle_row(session))) for session in sessions}
    given = _written_marks(ends)
    near = [(session, end) for session, coming in ends.items() for end in coming if end.at - now <= NEAR]
    for session, end in near:
        mark = warning_due(end, now, given[session.pk, end.cause.value, end.at])
        if mark is not None:
            _write_warning(session, end, mark, now)
    return [(session, end) for session, end in near if now >= end.at]


def _written_marks(
    ends: Mapping[ComputeSession, Sequence[End]],
) -> dict[tuple[UUID, str, datetime], set[int]]:
    """Return the marks of the warnings already written, per end.

    Deletes warnings of ends that were moved: if a limit is loosened and tightened again, its owner
    must be warned again.
    """
    given: dict[tuple[UUID, str, datetime], set[int]] = {
        (session.pk, end.cause.value, end.at): set() for session, coming in ends.items() for end in coming
    }
    judged, void = {session.pk for session in ends}, []
    for warning in SessionWarning.objects.filter(session__status=Status.RUNNING):
        marks = given.get((warning.session_id, warning.cause, warning.ends_at))
        if marks is not None:
            marks.add(warning.mark_s)
        elif warning.session_id in judged and warning.cause != Cause.PREEMPTION:
            void.append(warning.pk)
    if void:
        SessionWarning.objects.filter(pk__in=void).delete()
    return given


@transaction.atomic
def _write_warning(session: ComputeSession, end: End, mark_s: int, now: datetime) -> None:
    _row, is_new = SessionWarning.objects.get_or_create(
        session=session, cause=end.cause.value, ends_at=end.at, mark_s=mark_s, defaults={"warned_at": now}
    )
    if is_new:
        log.info(
            "idle.warned",
            session_id=str(session.pk),
            cause=end.cause,
            ends_at=end.at.isoformat(),
            mark_s=mark_s,
        )
        publish(SessionEndsSoon(session.pk))


def record_notification(warning: SessionWarning, now: datetime) -> None:
    """Record that the owner was notified, so that the end may be enforced.

    Call it in the transaction that writes the notification.
    """
    SessionWarning.objects.filter(pk=warning.pk, told_at=None).update(told_at=now)
    session = ComputeSession.objects.select_related("resource_group", "idle").get(pk=warning.session_id)
    idle = idle_row(session)
    ends = expected_ends(idle_facts(session, idle))
    notified = [end for end in ends if (end.cause.value, end.at) == (warning.cause, warning.ends_at)]
    is_last = any(end.last_mark_s == warning.mark_s for end in notified)
    # If an end that was already notified comes first, the pages keep showing that one.
    if notified == list(ends[:1]) or ends[0].at != idle.warned_of:
        SessionIdle.objects.filter(session=session).update(
            warned_of=warning.ends_at, last_told_at=now if is_last else None
        )
    updates.push_session_change(session)


@transaction.atomic
def end_if_due(session_id: UUID, cause: Cause, now: datetime) -> bool:
    """Terminate the session if the limit applies with its rows locked; return True if it ends.

    Policies count as stored by this round.
    """
    locked = ComputeSession.objects.select_for_update(of=("self",)).select_related("resource_group")
    session = locked.filter(pk=session_id, status=Status.RUNNING).first()
    idle = SessionIdle.objects.select_for_update().filter(session_id=session_id).first()
    if session is None or idle is None:
        return False
    end = next((end for end in expected_ends(idle_facts(session, idle)) if end.cause is cause), None)
    if end is None or not may_end(end, now, _last_notified_at(session_id, end)):
        return False
    begin_termination(session_id, reason=REASONS[cause], actor=SYSTEM)
    return True


def _last_notified_at(session_id: UUID, end: End) -> datetime | None:
    notified = SessionWarning.objects.filter(
        session_id=session_id, cause=end.cause.value, ends_at=end.at, mark_s=end.last_mark_s
    )
    return notified.values_list("told_at", flat=True).first()


def shift_timestamps(step: ClockJump) -> None:
    """Shift idle timestamps after a clock jump, which must neither add idle time nor void warnings.

    Utilisation is measured anew from now on, so that no window spans the jump.
    """
    warnings = SessionWarning.objects.filter(session__ended_at=None)
    live = SessionIdle.objects.filter(session__ended_at=None)
    list(warnings.order_by("pk").select_for_update(of=("self",)).values_list("pk"))
    list(live.order_by("pk").select_for_update(of=("self",)).values_list("pk"))
    warned_since = warnings.filter(step.is_since("warned_at"))
    live.exclude(session__in=warned_since.values("session")).update(warned_of=F("warned_of") + step.by)
    live.update(
        interacted_at=step.shifted("interacted_at"),
        last_told_at=step.shifted("last_told_at"),
        measured_from=F("measured_from") + step.by,
        kept_until=F("kept_until") + step.by,
        use_from=step.now,
        low_since=None,
    )
    warnings.update(
        ends_at=step.shifted("ends_at", unless=step.is_since("warned_at")),
        warned_at=step.shifted("warned_at"),
        told_at=step.shifted("told_at"),
    )
    IdleWatch.objects.update(judged_at=F("judged_at") + step.by)
    GatewayReport.objects.update(reported_at=step.shifted("reported_at"))
