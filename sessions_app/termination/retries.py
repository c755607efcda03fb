"""Batch sessions that are tried again: after a failure so many times, and after the loss of their machine, or when they had
to leave it for others, if they chose it.
What one held is given back, and it waits again, under the same row and the next attempt of its containers.

A machine that is lost may go on with what it runs until it is heard again: then the old container is removed, for its name
is that of an attempt which is over.
"""

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
from common.values.stored_message import KeptSentence
from sessions_app.core.states import Reason, Status, next_try
from sessions_app.lifecycle import transitions
from sessions_app.limits.policy_limits import check_allowed_again
from sessions_app.models import (
    ComputeSession,
    Kernel,
    KernelUsage,
    PersonalSetup,
    SessionIdle,
    SessionWarning,
    close_notices_of,
)

MOST_ATTEMPTS = 100  # of one that goes from one lost machine to the next
TRIED_AGAIN = gettext_noop("It failed and waits for a machine again: retry {number} of {most}.")
GAVE_WAY = KeptSentence(
    gettext_noop("It was preempted by a session with a higher priority, so it waits for another machine.")
)
NOT_AGAIN = gettext_noop("It is not tried again: {why}")
_BEFORE_AN_ATTEMPT = {
    "agent": None, "container_id": "", "address": None, "exit_code": None, "memory_kills": 0,
    "memory_killed_at": None, "memory_peak_bytes": None,
}  # fmt: skip


@transaction.atomic
def finish_or_retry(session_id: UUID, *, actor: Actor) -> ComputeSession:
    """The end of a TERMINATING session of which nothing is left: as it was decided, or another attempt. One that has ended, or
    waits again, stays as it is."""
    session: ComputeSession = ComputeSession.objects.select_for_update().get(pk=session_id)
    if session.status != Status.TERMINATING:
        return session
    if reason := _reason_to_retry(session):
        try:
            with transaction.atomic():
                check_allowed_again(session)
                return _wait_again(session, reason, actor)
        except BerthError as refusal:
            return _end_refused(session, refusal, actor)
        except IntegrityError as error:
            if constraint_of(error) != WITHIN_LIMITS:
                raise
            session.refresh_from_db()  # as it was before the attempt that was not made
            sentence = _("As many sessions wait as its limits allow.")
            return _end_refused(session, LimitExceeded(sentence), actor)
    return transitions.finish(session_id, actor=actor)


def _end_refused(session: ComputeSession, refusal: BerthError, actor: Actor) -> ComputeSession:
    """The end as it was decided, which says why no other attempt is made."""
    to, reason = Status(session.outcome or Status.ERROR), Reason(session.outcome_reason)
    message = KeptSentence(NOT_AGAIN, {"why": refusal.message})
    return transitions.transition(session.pk, to=to, reason=reason, actor=actor, message=message)


def give_up_retries(session: ComputeSession, *, actor: Actor) -> ComputeSession:
    """Somebody asks a TERMINATING session to end: it ends as it would, and no other attempt begins. The row is locked."""
    if _reason_to_retry(session):
        audit_log.record(actor=actor, action="sessions.terminate_session", target=session)
        session.max_retries, session.requeues = session.retry_count, False
        session.save(update_fields=["max_retries", "requeues"])
    return session


def _reason_to_retry(session: ComputeSession) -> Reason | None:
    has_retries = session.retry_count < session.max_retries
    reason = next_try(session.outcome_reason, has_retries=has_retries, requeues=session.requeues)
    if reason is Reason.REQUEUED and not session.kernels.filter(attempt__lt=MOST_ATTEMPTS).exists():
        return None
    return reason


def _wait_again(session: ComputeSession, reason: Reason, actor: Actor) -> ComputeSession:
    """At its old place where its machine was lost; else behind those that wait already: of who left for another, the time that it
    ran does not count as waiting, or ageing could set it before that one."""
    fields = ["outcome", "outcome_reason", "started_at", "exit_code"]
    message = GAVE_WAY if session.outcome_reason == Reason.PREEMPTED else None
    if session.outcome_reason != Reason.AGENT_LOST:
        session.eligible_at = clock.now()
        fields.append("eligible_at")
    session.outcome = session.outcome_reason = ""
    session.started_at = session.exit_code = None
    if reason is Reason.RETRIED:
        session.retry_count += 1
        fields.append("retry_count")
        message = KeptSentence(TRIED_AGAIN, {"number": session.retry_count, "most": session.max_retries})
    session.save(update_fields=fields)
    kernels = Kernel.objects.filter(session=session)
    KernelUsage.objects.filter(kernel__in=kernels).delete()
    PersonalSetup.objects.filter(session=session).delete()
    SessionWarning.objects.filter(session=session, told_at=None).delete()
    SessionIdle.objects.filter(session=session).delete()  # how it was used and extended was of that attempt
    close_notices_of(session.pk)
    moved = transitions.transition(session.pk, to=Status.PENDING, reason=reason, actor=actor, message=message)
    kernels.update(attempt=F("attempt") + 1, **_BEFORE_AN_ATTEMPT)
    return moved
