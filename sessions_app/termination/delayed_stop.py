"""Schedules stops that can be cancelled for a few seconds.

The time is stored in the session's row, so that it survives crashes; the reconciler executes it.
"""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import get_acting_user
from accounts.tenancy.user_import import user_actor
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.errors import Conflict
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession
from sessions_app.queue.arrays import UNDO_S, terminate_due_elements
from sessions_app.selectors import Action, access_session, is_stoppable, sessions_due_to_stop
from sessions_app.termination.service import terminate_locked


@transaction.atomic
def schedule_stop(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Schedule a stop in UNDO_S, which can be cancelled; return the session.

    A session with a scheduled stop keeps it. A session that ends or has ended is not changed,
    unless it may be retried.
    """
    access_session(actor, session_id, Action.TERMINATE)
    session: ComputeSession = ComputeSession.objects.select_for_update().get(pk=session_id)
    if session.stops_at or not is_stoppable(session):
        return session
    session.stops_at = clock.now() + timedelta(seconds=UNDO_S)
    session.stops_by = get_acting_user(actor)
    session.save(update_fields=["stops_at", "stops_by"])
    audit_log.record(actor=actor, action="sessions.stop_soon", target=session)
    updates.push_session_change(session)
    return session


@transaction.atomic
def cancel_stop(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Cancel a scheduled stop. Raises Conflict if the stop has begun."""
    access_session(actor, session_id, Action.TERMINATE)
    session: ComputeSession = ComputeSession.objects.select_for_update().get(pk=session_id)
    if not is_stoppable(session):
        raise Conflict(
            _("It is too late to keep “{session}”: it is being stopped.").format(session=session.name),
            hint=_("Its folders are kept. Start it again from its page."),
        )
    if session.stops_at is not None:
        session.stops_at = session.stops_by = None
        session.save(update_fields=["stops_at", "stops_by"])
        audit_log.record(actor=actor, action="sessions.keep_session", target=session)
        updates.push_session_change(session)
    return session


def run_due_stops() -> None:
    """Execute all due stops as the user who scheduled each; elements of one array together."""
    done: set[tuple[UUID, int | None]] = set()
    for session in sessions_due_to_stop(clock.now()).select_related("stops_by"):
        actor = user_actor(session.stops_by) if session.stops_by else SYSTEM  # None: a deleted account
        if session.array_id is not None:
            key = (session.array_id, session.stops_by_id)
            if key not in done:
                done.add(key)
                terminate_due_elements(
                    actor=actor, array_id=session.array_id, stops_by_id=session.stops_by_id
                )
            continue
        with transaction.atomic():
            # The stop may have been cancelled or rescheduled since it was read.
            fresh = ComputeSession.objects.select_for_update().get(pk=session.pk)
            if fresh.stops_at == session.stops_at:
                terminate_locked(fresh, actor=actor)
