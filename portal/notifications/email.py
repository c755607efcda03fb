"""Mails notifications from an outbox in the database; one worker at a time.

Failed mails are retried for a day with doubling waits. If a server accepted a mail without a timely
confirmation, or a process died before it, the mail is sent again with the same Message-ID, so that
mailboxes recognise the duplicate: at most twelve times in the day.
"""

import time
from datetime import timedelta
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.logins.mails import mail_obstacle
from accounts.models import User
from common import clock
from common.db.advisory_locks import try_exclusive
from portal.models import Notification, NotificationMail
from portal.notifications.catalogue import KIND_BY_CODE, SENTENCES, Code
from portal.notifications.selectors import notification_choice, notification_text, notification_url

log = structlog.get_logger(__name__)

TRIED_FOR = timedelta(days=1)
FIRST_WAIT = timedelta(minutes=1)
AT_ONCE = 100
WORK_S = 60
ANSWER_S = 30  # servers may scan a mail for this long before they accept it
REFUSED_FOR_EVER = 500


def mail_notifications() -> None:
    """Send due mails, oldest first, for at most WORK_S. Safe to run at any time, twice or late."""
    with try_exclusive("notification-mails") as is_mine:
        if is_mine:
            _give_up()
            _send_due(until=time.monotonic() + WORK_S)


def _give_up() -> None:
    """Delete mails that are too old, and all if mail is no longer configured."""
    hopeless = NotificationMail.objects.all()
    if settings.BERTH_MAIL:
        hopeless = hopeless.filter(notification__created_at__lt=clock.now() - TRIED_FOR)
    if count := hopeless.delete()[0]:
        log.warning("notification_mail.given_up", count=count)


def _send_due(*, until: float) -> None:
    due = NotificationMail.objects.filter(due_at__lte=clock.now()).order_by("due_at", "pk")
    rows = list(due.select_related("notification__person__domain")[:AT_ONCE])
    if not rows:
        return
    connection = get_connection(timeout=ANSWER_S)
    try:
        connection.open()
        for row in rows:
            if time.monotonic() < until:
                _send(row, connection)
    except (OSError, SMTPException) as error:  # server unavailable: the next run retries
        log.warning("notification_mail.no_server", waiting=len(rows), error=type(error).__name__)
    finally:
        connection.close()


def _send(row: NotificationMail, connection: BaseEmailBackend) -> None:
    """Send one mail. Raises OSError or SMTPException if the server can no longer be reached."""
    _put_off(row)
    try:
        message = build_message(row.notification)
    except (LookupError, TypeError, ValueError):  # from another release: must not block the mails behind it
        log.exception("notification_mail.unreadable", notification_id=row.pk)
        message = None
    if message is not None:
        message.connection = connection
        try:
            message.send()
        except (SMTPRecipientsRefused, SMTPDataError) as error:
            if not _is_refused_for_ever(row, error):
                return
        except (OSError, SMTPException) as error:  # perhaps specific to this mail: reconnect for the others
            log.warning("notification_mail.unanswered", notification_id=row.pk, error=type(error).__name__)
            connection.close()
            connection.open()
            return
    row.delete()


def _put_off(row: NotificationMail) -> None:
    """Postpone the next attempt by the mail's age, before sending can fail."""
    waited = clock.now() - row.notification.created_at
    NotificationMail.objects.filter(pk=row.pk).update(due_at=clock.now() + max(FIRST_WAIT, waited))


def _is_refused_for_ever(row: NotificationMail, error: SMTPRecipientsRefused | SMTPDataError) -> bool:
    if isinstance(error, SMTPDataError):
        code = error.smtp_code
    else:
        code = max(code for code, _answer in error.recipients.values())
    log.warning("notification_mail.refused", notification_id=row.pk, code=code)
    return code >= REFUSED_FOR_EVER


def build_message(notification: Notification) -> EmailMessage | None:
    """Return the mail in the user's language; None if it is no longer wanted or allowed."""
    person: User = notification.person
    code = Code(notification.code)
    is_wanted = KIND_BY_CODE[code] in notification_choice(person.pk).mailed
    if not (is_wanted and person.is_active and person.domain.is_active) or mail_obstacle(person):
        return None
    with override(person.language or settings.LANGUAGE_CODE):
        text = notification_text(notification)
        choice = settings.BERTH_URL + reverse("preferences")
        end = _("You asked for this mail. Here you choose what is mailed to you:")
        body = (
            text,
            _(SENTENCES[code].more),
            settings.BERTH_URL + notification_url(notification),
            "--",
            end,
            choice,
        )
    host = urlsplit(settings.BERTH_URL).hostname
    return EmailMessage(
        " ".join(text.split()),
        "\n\n".join(body) + "\n",
        to=[person.email],
        headers={
            "Message-ID": f"<notification-{notification.pk}.{settings.BERTH_INSTALLATION}@{host}>",
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": f"<{choice}>",
        },
    )
