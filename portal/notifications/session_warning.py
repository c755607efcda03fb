"""Warnings of owners whose session is about to be ended by a limit; no session ends without one."""

from uuid import UUID

from django.db import transaction

from common import clock
from portal.notifications.catalogue import CODE_BY_CAUSE
from portal.notifications.service import notify
from sessions_app.core.idle_rules import Cause
from sessions_app.idle.enforcer import record_notification
from sessions_app.idle.facts import idle_row, judge_utilization
from sessions_app.idle.messages import low_utilization
from sessions_app.models import SessionWarning

MINUTE_S = 60


def notify_of_warnings(session_id: UUID | None = None) -> None:
    """Send pending warnings, of one session or of all. Safe to run at any time, twice or late."""
    waiting = SessionWarning.objects.filter(told_at=None, session__ended_at=None)
    if session_id is not None:
        waiting = waiting.filter(session_id=session_id)
    for pk in waiting.order_by("warned_at").values_list("pk", flat=True):
        _tell_owner(pk)


@transaction.atomic
def _tell_owner(warning_id: int) -> None:
    """Send one warning; the notification and its record are written in one transaction."""
    locked = SessionWarning.objects.select_for_update(of=("self",)).select_related(
        "session__resource_group", "session__idle"
    )
    warning = locked.filter(pk=warning_id, told_at=None).first()
    if warning is None:
        return
    now = clock.now()
    left_s = max((warning.ends_at - now).total_seconds(), warning.mark_s if now >= warning.ends_at else 0)
    notify(
        person_id=warning.session.owner_id,
        code=CODE_BY_CAUSE[Cause(warning.cause)],
        happening=f"ends:{warning.pk}",
        arguments={
            "name": warning.session.name,
            "minutes": max(1, round(left_s / MINUTE_S)),
            **_low_use(warning),
        },
        session_id=warning.session_id,
        again_until=max(warning.ends_at, now),
    )
    record_notification(warning, now)


def _low_use(warning: SessionWarning) -> dict[str, object]:
    """Return {"low": [(name, percent, least)]} of under-utilised resources; {} for other causes."""
    if warning.cause != Cause.USE:
        return {}
    session = warning.session
    return {"low": low_utilization(judge_utilization(session, idle_row(session)))}
