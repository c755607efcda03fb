"""Ends sessions on request of users or of Berth."""

from uuid import UUID

from django.db import transaction

from common.actors import Actor
from common.audit import audit_log
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import StoredMessage
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.selectors import Action, access_session
from sessions_app.termination.retries import give_up_retries


def terminate_session(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Terminate a session. A waiting one becomes CANCELLED at once; an ended one is not changed."""
    access_session(actor, session_id, Action.TERMINATE)
    with transaction.atomic():
        return terminate_locked(ComputeSession.objects.select_for_update().get(pk=session_id), actor=actor)


def terminate_locked(session: ComputeSession, *, actor: Actor) -> ComputeSession:
    """Terminate a locked session, without access checks; otherwise like `terminate_session`."""
    status = Status(session.status)
    if status is Status.TERMINATING:
        return give_up_retries(session, actor=actor)
    if status.is_terminal:
        return session
    reason = Reason.USER_REQUESTED if session.owner_id == actor.user_id else Reason.ADMIN_REQUESTED
    audit_log.record(actor=actor, action="sessions.terminate_session", target=session)
    if status is Status.PENDING:
        return transitions.transition(session.pk, to=Status.CANCELLED, reason=reason, actor=actor)
    return begin_termination(session.pk, reason=reason, actor=actor)


@transaction.atomic
def begin_termination(
    session_id: UUID,
    *,
    reason: Reason,
    actor: Actor,
    message: StoredMessage | None = None,
    exit_code: int | None = None,
) -> ComputeSession:
    """Move a session to TERMINATING and enqueue the removal of its containers after commit."""
    session = transitions.transition(
        session_id, to=Status.TERMINATING, reason=reason, actor=actor, message=message, exit_code=exit_code
    )
    enqueue_on_commit(TaskName.TERMINATE_SESSION, session_id=str(session_id))
    return session
