"""Writes notifications, marks them as read, and stores users' choices."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils.translation import gettext as _

from accounts.core.token_secrets import EXPIRY_WARNINGS as WARNED_BEFORE_END
from accounts.core.token_secrets import warning_due
from accounts.logins.mails import mail_obstacle
from accounts.models import KeyPair
from accounts.selectors import get_acting_user
from common import clock
from common.actors import Actor
from common.errors import InvalidInput
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.live_updates import Audience, push_many_on_commit
from common.values.text import quoted
from portal.models import Notification, NotificationChoice, NotificationMail, ToldNotice
from portal.notifications.catalogue import KIND_BY_CODE, MUTABLE, UNMUTABLE, Code, Kind
from portal.notifications.selectors import access_notification, notification_choices, unread_notifications
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession

KEPT_NOTIFICATIONS = 200
WARNED_BEFORE = timedelta(minutes=10)
EVENTS_KEPT = timedelta(days=2)  # longer than clock differences, and than a day that is part of a happening


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """Notification to send, at most once per user and `happening`. `again_until`: latest time at
    which it may be sent again, by default now.
    """

    person_id: int
    code: Code
    happening: str
    arguments: Mapping[str, object]
    session_id: UUID | None = None
    again_until: datetime | None = None


def notify(**fields: Any) -> bool:
    """Send one notification with the fields of NewNotification; return True if it was sent."""
    return bool(notify_many([NewNotification(**fields)]))


@transaction.atomic
def notify_many(notifications: Collection[NewNotification]) -> int:
    """Notify each user once per `happening`, unless the kind is muted, and mail it if wanted. A
    concurrent duplicate waits and is dropped. Notifications beyond KEPT_NOTIFICATIONS per user are
    deleted, oldest first, except those whose mail is pending. Returns the number sent; at most 7
    queries for any number of notifications.
    """
    new = _record_events({(each.person_id, each.happening): each for each in notifications})
    people = {each.person_id for each in new}
    choices = notification_choices(people)
    unmuted = [each for each in new if not _is_muted(choices[each.person_id], KIND_BY_CODE[each.code])]
    if not unmuted:
        return 0
    created = _insert(unmuted)
    _delete_oldest(people)
    mailed = [each for each in created if KIND_BY_CODE[Code(each.code)] in choices[each.person_id].mailed]
    if mailed and settings.BERTH_MAIL:
        NotificationMail.objects.bulk_create(NotificationMail(notification=each) for each in mailed)
        enqueue_on_commit(TaskName.MAIL_NOTIFICATIONS)
    _push([(each.person_id, each.pk) for each in created])
    return len(created)


def _insert(notifications: Sequence[NewNotification]) -> list[Notification]:
    """Insert the notifications and return them. One query."""
    now = clock.now()
    return Notification.objects.bulk_create(
        Notification(
            person_id=each.person_id,
            code=each.code.value,
            arguments=dict(each.arguments),
            session_id=each.session_id,
            created_at=now,
        )
        for each in notifications
    )


def _record_events(notifications: Mapping[tuple[int, str], NewNotification]) -> list[NewNotification]:
    """Record the events and return those that are new. Inserted in sorted order, so that concurrent
    calls do not deadlock. One query.
    """
    keys = sorted(notifications)
    untils = [notifications[key].again_until or clock.now() for key in keys]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO {ToldNotice._meta.db_table} (person_id, happening, again_until)
            SELECT * FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[]) ON CONFLICT DO NOTHING
            RETURNING person_id, happening
            """,
            [[person_id for person_id, _ in keys], [happening for _, happening in keys], untils],
        )
        new = set(cursor.fetchall())
    return [each for key, each in notifications.items() if key in new]


def _is_muted(choice: NotificationChoice, kind: Kind) -> bool:
    return kind in choice.muted and kind not in UNMUTABLE


def _delete_oldest(people: Collection[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            DELETE FROM {Notification._meta.db_table} WHERE id IN (
                SELECT oldest.id FROM unnest(%s::bigint[]) AS person (id), LATERAL (
                    SELECT id FROM {Notification._meta.db_table} WHERE person_id = person.id
                    ORDER BY created_at DESC, id DESC OFFSET %s
                ) AS oldest
            ) AND id NOT IN (SELECT notification_id FROM {NotificationMail._meta.db_table})
            """,
            [list(people), KEPT_NOTIFICATIONS],
        )


def notify_of_expiring_tokens() -> None:
    """Notify users of tokens that expire soon: some days before and on the last."""
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


def notify_of_deadlines() -> None:
    """Notify users of expiring tokens and of sessions that reach their own time limit soon, and
    delete old records of notified events. Safe to run at any time.
    """
    notify_of_expiring_tokens()
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
    ToldNotice.objects.filter(again_until__lt=now - EVENTS_KEPT).delete()


@transaction.atomic
def choose_notifications(
    *, actor: Actor, muted: Collection[str] | None = None, mailed: Collection[str] | None = None
) -> NotificationChoice:
    """Set the actor's muted and mailed kinds; None keeps the present ones. Raises InvalidInput for
    an unknown kind, and if mail cannot be sent.
    """
    person = get_acting_user(actor)
    chosen = {}
    if muted is not None:
        chosen["muted"] = _checked(muted, MUTABLE, "muted_notifications")
    if mailed is not None:
        chosen["mailed"] = _checked(mailed, Kind, "mailed_notifications")
    if mailed and (reason := mail_obstacle(person)):
        raise InvalidInput(reason, fields={"mailed_notifications": [reason]})
    return NotificationChoice.objects.update_or_create(person=person, defaults=chosen)[0]


def _checked(names: Collection[str], known: Iterable[Kind], field: str) -> list[str]:
    """Return the names without repeats, in the order of Kind. Raises InvalidInput."""
    values = [kind.value for kind in known]
    if wrong := next((name for name in names if name not in values), None):
        sentence = _("{kind} is no kind of notification. These are: {known}.").format(
            kind=quoted(wrong), known=", ".join(values)
        )
        raise InvalidInput(sentence, fields={field: [sentence]})
    return [value for value in values if value in names]


@transaction.atomic
def read_notification(*, actor: Actor, notification_id: int) -> Notification:
    """Mark a notification as read. Idempotent. Raises NotFound."""
    notification = access_notification(actor, notification_id)
    if notification.read_at is None:
        notification.read_at = clock.now()
        notification.save(update_fields=["read_at"])
        _push([(notification.person_id, notification.pk)])
    return notification


@transaction.atomic
def read_all_notifications(*, actor: Actor) -> int:
    """Mark all notifications as read; return how many were unread."""
    count = unread_notifications(actor).update(read_at=clock.now())
    if count and actor.user_id is not None:
        _push([(actor.user_id, 0)])
    return count


def _push(changes: Iterable[tuple[int, int]]) -> None:
    """Publish changes after commit, as (user id, notification id); id 0 means all."""
    push_many_on_commit(
        "notifications-changed",
        [(Audience(owner_id=person_id), {"id": notification_id}) for person_id, notification_id in changes],
    )
