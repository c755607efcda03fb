"""Writes of the portal as a whole: what people are told, and that they have read it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat
from django.utils.translation import gettext as _

from accounts.mails import why_no_mail
from accounts.models import KeyPair
from accounts.selectors import user_of
from accounts.tokens import WARNED_BEFORE as WARNED_BEFORE_END
from accounts.tokens import warning_due
from common import clock
from common.actors import Actor
from common.dispatch import TaskName, enqueue_on_commit
from common.errors import InvalidInput
from common.push import Audience, push_on_commit
from common.texts import quoted
from portal.models import Notification, NotificationChoice, NotificationMail, ToldNotice
from portal.selectors import access_notification, choice_of, unread_notifications
from portal.sentences import ALWAYS_TOLD, KIND_OF, MUTABLE, REASONS_TOLD, Code, Kind, code_of_end
from sessions_app.models import ComputeSession
from sessions_app.states import Status

KEPT_NOTIFICATIONS = 200
WARNED_BEFORE = timedelta(minutes=10)
HEALED_FOR = timedelta(hours=1)
TOLD_KEPT = timedelta(days=2)  # longer than clocks differ, and than a day that is part of a happening
END = "end:"


@transaction.atomic
def notify(
    *,
    person_id: int,
    code: Code,
    happening: str,
    arguments: Mapping[str, object],
    session_id: UUID | None = None,
    again_until: datetime | None = None,
) -> bool:
    """Tell one person, once for each `happening`, unless they muted its kind, and by mail, too, if they want that. Two who come
    at once: the slower one waits, and finds that it was told. `again_until`: nobody comes with this happening later, by default
    than now. The oldest beyond KEPT_NOTIFICATIONS are forgotten, but none whose mail still waits. True if new."""
    _told, is_new = ToldNotice.objects.get_or_create(
        person_id=person_id, happening=happening, defaults={"again_until": again_until or clock.now()}
    )
    kind, choice = KIND_OF[code], choice_of(person_id)
    if not is_new or (kind in choice.muted and kind not in ALWAYS_TOLD):
        return False
    notification = Notification.objects.create(
        person_id=person_id, code=code.value, arguments=dict(arguments), session_id=session_id
    )
    theirs = Notification.objects.filter(person_id=person_id)
    kept = theirs.values_list("pk", flat=True)[:KEPT_NOTIFICATIONS]
    theirs.filter(mail=None).exclude(pk__in=list(kept)).delete()
    if kind in choice.mailed and settings.BERTH_MAIL:
        NotificationMail.objects.create(notification=notification)
        enqueue_on_commit(TaskName.MAIL_NOTIFICATIONS)
    _push(person_id, notification.pk)
    return True


def notify_of_end(session_id: UUID) -> None:
    """Tell the owner why a session ended, if that is news to them. May run twice."""
    session = ComputeSession.objects.filter(pk=session_id).first()
    code = code_of_end(session.status, session.status_reason) if session and not session.is_live else None
    if session is None or code is None:
        return
    notify(
        person_id=session.owner_id,
        code=code,
        happening=f"{END}{session.pk}",
        arguments={"name": session.name, "exit_code": session.exit_code, "image": session.image_reference},
        session_id=session.pk,
        again_until=cast("datetime", session.ended_at) + HEALED_FOR,
    )


def notify_of_tokens_that_end() -> None:
    """Tell people of tokens of theirs that expire soon: some days before and on the last. May run at any time."""
    now = clock.now()
    ending = KeyPair.objects.filter(is_active=True, user__is_active=True, expires_at__gt=now)
    for keypair in ending.filter(expires_at__lte=now + max(WARNED_BEFORE_END)):
        ends_at = cast("datetime", keypair.expires_at)
        due = warning_due(created_at=keypair.created_at, expires_at=ends_at, now=now)
        if due is not None:
            notify(
                person_id=keypair.user_id,
                code=Code.TOKEN_ENDS_SOON,
                happening=f"token-ends:{keypair.pk}:{due.days}",
                arguments={"name": keypair.name, "date": ends_at.date().isoformat()},
                again_until=ends_at,
            )


def notify_of_what_nears() -> None:
    """Tell owners of sessions that reach their own time limit soon, and of ends that nobody was told of because a
    process died in between. May run at any time."""
    notify_of_tokens_that_end()
    now = clock.now()
    limited = ComputeSession.objects.filter(
        status=Status.RUNNING, timeout_s__gt=2 * WARNED_BEFORE.total_seconds()
    )
    for session in limited.filter(deadline_at__lte=now + WARNED_BEFORE, deadline_at__gt=now):
        notify(
            person_id=session.owner_id,
            code=Code.ENDS_SOON,
            happening=f"ends-soon:{session.pk}",
            arguments={"name": session.name},
            session_id=session.pk,
            again_until=session.deadline_at,
        )
    told = ToldNotice.objects.filter(
        person_id=OuterRef("owner_id"), happening=Concat(Value(END), Cast(OuterRef("pk"), CharField()))
    )
    ended = ComputeSession.objects.filter(
        Q(status=Status.ERROR) | Q(status_reason__in=REASONS_TOLD),
        ~Exists(told),
        ended_at__gt=now - HEALED_FOR,
        ended_at__lt=now - timedelta(minutes=1),
    )
    for session_id in ended.values_list("pk", flat=True):
        notify_of_end(session_id)
    ToldNotice.objects.filter(again_until__lt=now - TOLD_KEPT).delete()


@transaction.atomic
def choose_notifications(
    *, actor: Actor, muted: Collection[str] | None = None, mailed: Collection[str] | None = None
) -> NotificationChoice:
    """Tell the actor nothing of the kinds in `muted` from now on, and those in `mailed` also by mail; None leaves it. Raises
    InvalidInput for one that is none, and for mail that cannot be sent."""
    person = user_of(actor)
    wanted = {}
    if muted is not None:
        wanted["muted"] = _checked(muted, MUTABLE, "muted_notifications")
    if mailed is not None:
        wanted["mailed"] = _checked(mailed, Kind, "mailed_notifications")
    if mailed and (reason := why_no_mail(person)):
        raise InvalidInput(reason, fields={"mailed_notifications": [reason]})
    return NotificationChoice.objects.update_or_create(person=person, defaults=wanted)[0]


def _checked(names: Collection[str], known: Iterable[Kind], field: str) -> list[str]:
    """Each once, in the order of Kind. Raises InvalidInput."""
    values = [kind.value for kind in known]
    if wrong := next((name for name in names if name not in values), None):
        sentence = _("{kind} is no kind of notification. These are: {known}.").format(
            kind=quoted(wrong), known=", ".join(values)
        )
        raise InvalidInput(sentence, fields={field: [sentence]})
    return [value for value in values if value in names]


@transaction.atomic
def read_notification(*, actor: Actor, notification_id: int) -> Notification:
    """It is read from now on; reading it again changes nothing."""
    notification = access_notification(actor, notification_id)
    if notification.read_at is None:
        notification.read_at = clock.now()
        notification.save(update_fields=["read_at"])
        _push(notification.person_id, notification.pk)
    return notification


@transaction.atomic
def read_all_notifications(*, actor: Actor) -> int:
    """How many were unread."""
    count = unread_notifications(actor).update(read_at=clock.now())
    if count and actor.user_id is not None:
        _push(actor.user_id, 0)
    return count


def _push(person_id: int, notification_id: int) -> None:
    push_on_commit(
        "notifications-changed", audience=Audience(owner_id=person_id), payload={"id": notification_id}
    )
