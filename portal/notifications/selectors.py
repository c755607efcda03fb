"""Reads of notifications, announcements, and people who can help."""

from collections.abc import Collection, Mapping, Sequence

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.core.roles import Role
from accounts.models import User
from common import clock
from common.actors import Actor
from common.errors import NotFound
from common.i18n import paragraph
from common.values.money import format_money
from portal.models import Announcement, Notification, NotificationChoice
from portal.notifications.catalogue import MONEY_CODES, SENTENCES, Code
from sessions_app.idle.messages import low_utilization_text

SHOWN_HELPERS = 3


def find_helpers(user_id: int, domain_id: int | None) -> Sequence[Mapping[str, object]]:
    """Return [{"name", "email"}] of people who can help a user who was refused something: admins of
    the domain, or superadmins if it has none; never the user. At most two queries.
    """
    people = User.objects.filter(is_active=True).exclude(pk=user_id)
    for role, there in ((Role.DOMAIN_ADMIN, {"domain_id": domain_id}), (Role.SUPERADMIN, {})):
        found = list(people.filter(role=role.value, **there).values("name", "email")[:SHOWN_HELPERS])
        if found:
            return found
    return []


def own_notifications(actor: Actor) -> QuerySet[Notification]:
    """Notifications of the actor, newest first."""
    return Notification.objects.filter(person_id=actor.user_id or 0)


def unread_notifications(actor: Actor) -> QuerySet[Notification]:
    return own_notifications(actor).filter(read_at=None)


def notification_choice(person_id: int) -> NotificationChoice:
    """Return the user's muted and mailed kinds, by default none. One query."""
    return notification_choices([person_id])[person_id]


def notification_choices(people: Collection[int]) -> dict[int, NotificationChoice]:
    """Return the muted and mailed kinds of each user. One query."""
    found = NotificationChoice.objects.in_bulk(list(people))
    return {
        person_id: found.get(person_id) or NotificationChoice(person_id=person_id) for person_id in people
    }


def notification_text(notification: Notification) -> str:
    """Return the text in the reader's language."""
    code, arguments = Code(notification.code), notification.arguments
    if code in MONEY_CODES:
        arguments = {**arguments, **{name: format_money(arguments[name]) for name in ("left", "amount")}}
    if code is Code.DEVICE_TROUBLE:  # a known reason, or the words of an administrator
        because = arguments["because"]
        arguments = {**arguments, "because": _(because)}
    text = _(SENTENCES[code].text).format(**arguments)
    return paragraph(filter(None, (text, low_utilization_text(arguments.get("low", ())))))


def notification_url(notification: Notification) -> str:
    """Return the path of the page that the notification is about."""
    if notification.session_id is not None:
        return reverse("session-detail", args=[notification.session_id])
    return reverse(SENTENCES[Code(notification.code)].page)


def access_notification(actor: Actor, notification_id: int) -> Notification:
    notification = own_notifications(actor).filter(pk=notification_id).first()
    if notification is None:
        raise NotFound(_("There is no such notification among yours."))
    return notification


def current_announcements(dismissed: Collection[int] = ()) -> list[Announcement]:
    """Return the announcements in effect now, without dismissed ones. One query."""
    now = clock.now()
    current = Announcement.objects.filter(starts_at__lte=now).filter(Q(ends_at=None) | Q(ends_at__gt=now))
    return [one for one in current if not (one.is_dismissible and one.pk in dismissed)]
