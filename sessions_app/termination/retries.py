"""Retries batch sessions after failures, and requeues sessions after the loss of their agent, a preemption
or a failure of their accelerators.

Failures are retried `max_retries` times; requeueing is opt-in (`requeues`). Any session is queued again
once if its machine could not give it its accelerators. The allocations are
released, and the session waits again with the same row and the next attempt of its containers. A
lost agent may keep running the old container; it is removed when the agent returns, because its
name has an earlier attempt.
"""

from collections.abc import Mapping
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.limits import WITHIN_LIMITS
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.connection import constraint_of
from common.errors import BerthError, LimitExceeded
from common.i18n import gettext_noop
from common.values.stored_message import StoredMessage
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.limits.policy_limits import check_retry_allowed
from sessions_app.models import (
    ComputeSession,
    Kernel,
    KernelUsage,
    PersonalSetup,
    SessionIdle,
    SessionWarning,
    close_preemptions,
)
from sessions_app.selectors import next_attempt_reason

MAX_ATTEMPTS = 100  # for a session that moves from one lost agent to the next
RETRY_MESSAGE = gettext_noop("It failed and waits for a machine again: retry {number} of {most}.")
PREEMPTED_MESSAGE = StoredMessage(
    gettext_noop("It was preempted by a session with a higher priority, so it waits for another machine.")
)
NO_DEVICE_MESSAGE = StoredMessage(
    gettext_noop("Its machine could not give it its accelerators, so it waits for others.")
)
NO_RETRY_MESSAGE = gettext_noop("It is not tried again: {why}")
_REQUEUED_MESSAGES: Mapping[str, StoredMessage] = {
    Reason.PREEMPTED: PREEMPTED_MESSAGE,
    Reason.DEVICE_UNAVAILABLE: NO_DEVICE_MESSAGE,
}
_KERNEL_RESET = {
    "agent": None, "container_id": "", "address": None, "exit_code": None, "memory_kills": 0,
    "ended_at": None, "memory_killed_at": None, "memory_peak_bytes": None,
}  # fmt: skip


@transaction.atomic
def finish_or_retry(session_id: UUID, *, actor: Actor) -> ComputeSession:
    """Finish a TERMINATING session whose containers are removed, or queue its next attempt.

    A session that has ended or waits again is not changed.
    """
    session: ComputeSession = ComputeSession.objects.select_for_update().get(pk=session_id)
    if session.status != Status.TERMINATING:
        return session
    if reason := _reason_to_retry(session):
        try:
            with transaction.atomic():
                check_retry_allowed(session)
                return _requeue(session, reason, actor)
        except BerthError as refusal:
            return _end_refused(session, refusal, actor)
        except IntegrityError as error:
            if constraint_of(error) != WITHIN_LIMITS:
                raise
            session.refresh_from_db()  # the values before the failed attempt
            sentence = _("As many sessions wait as its limits allow.")
            return _end_refused(session, LimitExceeded(sentence), actor)
    return transitions.finish(session_id, actor=actor)


def _end_refused(session: ComputeSession, refusal: BerthError, actor: Actor) -> ComputeSession:
    """Finish the session with its recorded outcome, and a message why it is not retried."""
    to, reason = Status(session.outcome or Status.ERROR), Reason(session.outcome_reason)
    message = StoredMessage(NO_RETRY_MESSAGE, {"why": refusal.message})
    return transitions.transition(session.pk, to=to, reason=reason, actor=actor, message=message)


def give_up_retries(session: ComputeSession, *, actor: Actor) -> ComputeSession:
    """Cancel further attempts of a locked TERMINATING session on a user's request."""
    if _reason_to_retry(session):
        audit_log.record(actor=actor, action="sessions.terminate_session", target=session)
        session.max_retries, session.requeues = session.retry_count, False
        session.may_change_devices = False
        session.save(update_fields=["max_retries", "requeues", "may_change_devices"])
    return session


def _reason_to_retry(session: ComputeSession) -> Reason | None:
    reason = next_attempt_reason(session)
    if reason is Reason.REQUEUED and not session.kernels.filter(attempt__lt=MAX_ATTEMPTS).exists():
        return None
    return reason


def _requeue(session: ComputeSession, reason: Reason, actor: Actor) -> ComputeSession:
    """Queue the session again: at its old place if its agent was lost or could not give it its
    accelerators, else at the end of the queue.

    For a preempted session the time that it ran does not count as waiting; ageing could otherwise
    place it before the session that preempted it.
    """
    fields = ["outcome", "outcome_reason", "started_at", "exit_code"]
    message = _REQUEUED_MESSAGES.get(session.outcome_reason)
    if reason is Reason.REQUEUED and session.outcome_reason == Reason.DEVICE_UNAVAILABLE:
        session.may_change_devices = False
        fields.append("may_change_devices")
    elif session.outcome_reason != Reason.AGENT_LOST:
        session.eligible_at = clock.now()
        fields.append("eligible_at")
    session.outcome = session.outcome_reason = ""
    session.started_at = session.exit_code = None
    if reason is Reason.RETRIED:
        session.retry_count += 1
        fields.append("retry_count")
        message = StoredMessage(RETRY_MESSAGE, {"number": session.retry_count, "most": session.max_retries})
    session.save(update_fields=fields)
    kernels = Kernel.objects.filter(session=session)
    KernelUsage.objects.filter(kernel__in=kernels).delete()
    PersonalSetup.objects.filter(session=session).delete()
    SessionWarning.objects.filter(session=session, told_at=None).delete()
    # activity, utilisation and extensions belong to the old attempt
    SessionIdle.objects.filter(session=session).delete()
    close_preemptions(session.pk)
    moved = transitions.transition(session.pk, to=Status.PENDING, reason=reason, actor=actor, message=message)
    kernels.update(attempt=F("attempt") + 1, **_KERNEL_RESET)
    return moved
