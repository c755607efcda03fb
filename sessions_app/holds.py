"""What keeps a waiting session out of the queue: its start time. The scheduler reads those that nothing holds; whoever is
held has its reason from the beginning, and is let into the queue here."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from common import clock
from common.errors import InvalidInput
from common.events import announce
from common.kept_sentences import KeptSentence
from common.languages import gettext_noop
from sessions_app.events import SessionEnqueued
from sessions_app.lifecycle import push_session_change
from sessions_app.models import ComputeSession
from sessions_app.queueing import Hold
from sessions_app.requests import SessionRequest
from sessions_app.states import DEADLINES_S, HELD_DEADLINE_S, REASON_SENTENCES, Reason, Status

FURTHEST_START = timedelta(days=365)
TOLERATED = timedelta(minutes=1)  # of a start time that was now when it was typed
UNTIL = gettext_noop("Waits for its start time, {time} UTC.")
_RELEASED_FIELDS = ("held_for", "eligible_at", "status_reason", "status_message", "deadline_at")


def check_start_time(request: SessionRequest) -> None:
    """Raises InvalidInput for a start time that is past, or too far."""
    if request.start_at is None:
        return
    ahead = request.start_at - clock.now()
    if ahead < -TOLERATED:
        sentence = _(
            "{time} UTC is past. Give a time that is to come, or none to start as soon as there is room."
        )
    elif ahead > FURTHEST_START:
        sentence = _("{time} UTC is more than a year ahead. Give an earlier time.")
    else:
        return
    sentence = sentence.format(time=f"{request.start_at:%Y-%m-%d %H:%M}")
    raise InvalidInput(sentence, fields={"start_at": [sentence]})


def hold_of(start_at: datetime | None) -> Hold:
    """What holds a session that is asked for now."""
    return Hold.START_TIME if start_at is not None and start_at > clock.now() else Hold.NOTHING


def reason_of(hold: Hold) -> Reason:
    return Reason.START_TIME if hold is Hold.START_TIME else Reason.ENQUEUED


def sentence_of(hold: Hold, start_at: datetime | None) -> KeptSentence:
    if hold is Hold.START_TIME and start_at is not None:
        return KeptSentence(UNTIL, {"time": f"{start_at:%Y-%m-%d %H:%M}"})
    return REASON_SENTENCES[reason_of(hold)]


def deadline_of(hold: Hold, pending_timeout_s: int | None) -> datetime:
    """Until when it may be PENDING: the time that it is to wait counts from when it queues."""
    usual_s = pending_timeout_s or DEADLINES_S[Status.PENDING]
    return clock.now() + timedelta(seconds=HELD_DEADLINE_S if hold else usual_s)


def release_what_is_due() -> None:
    """Let those into the queue whose start time has come."""
    due = ComputeSession.objects.filter(
        status=Status.PENDING, held_for=Hold.START_TIME.value, start_at__lte=clock.now()
    )
    if due.exists():
        with transaction.atomic():
            _release(due.order_by("pk").select_for_update(skip_locked=True))


def _release(sessions: Collection[ComputeSession]) -> None:
    """Rows that are locked. Whoever waits from now on stands behind those that have waited."""
    for session in sessions:
        session.held_for = Hold.NOTHING.value
        session.eligible_at = clock.now()
        session.status_reason = Reason.ENQUEUED.value
        session.status_message = REASON_SENTENCES[Reason.ENQUEUED]
        session.deadline_at = deadline_of(Hold.NOTHING, session.pending_timeout_s)
        session.save(update_fields=_RELEASED_FIELDS)
        announce(SessionEnqueued(session_id=session.pk, resource_group_id=session.resource_group_id))
        push_session_change(session)
