"""Sends mails with sign-in secrets once, after commit. They bypass the outbox, which would store
the secrets.
"""

from collections.abc import Callable
from functools import partial
from smtplib import SMTPException

import structlog
from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import Invitation, User

log = structlog.get_logger(__name__)


def invitation_mail(invitation: Invitation, url: str) -> EmailMessage:
    inviter = invitation.inviter.get_short_name() if invitation.inviter else "Berth"
    text = _("{name} invites you to Berth. Create your account here, until {day}:").format(
        name=_one_line(inviter), day=invitation.expires_at.date().isoformat()
    )
    end = _("The link works once. If you expected no invitation, leave it be.")
    return EmailMessage(_("You are invited to Berth"), _paragraphs(text, url, end), to=[invitation.email])


def sign_up_mail(email: str, url: str) -> EmailMessage:
    text = _(
        "Somebody, probably you, wants an account of Berth with this address. Create it here, within a day:"
    )
    end = _("If it was not you, leave this mail be: then nothing happens.")
    return EmailMessage(_("Your account of Berth"), _paragraphs(text, url, end), to=[email])


def existing_account_mail(email: str) -> EmailMessage:
    text = _(
        "Somebody, probably you, wants an account of Berth with this address. You have one already. Sign in here:"
    )
    end = _("If it was not you, leave this mail be: then nothing happens.")
    url = settings.BERTH_URL + reverse(settings.LOGIN_URL)
    return EmailMessage(_("Your account of Berth"), _paragraphs(text, url, end), to=[email])


def password_reset_mail(user: User, url: str) -> EmailMessage:
    text = _("An administrator sends you this link. By it you choose another password for Berth:")
    end = _(
        "If it was not you who asked for it, tell an administrator. Your password stays until you choose another one."
    )
    return EmailMessage(_("Reset your password for Berth"), _paragraphs(text, url, end), to=[user.email])


def mail_obstacle(user: User) -> str:
    """Return the reason why only sign-in mails may be sent to this user; "" if all may. At most one
    query.
    """
    if not settings.BERTH_MAIL:
        return _("No mail is set up here, so none can be sent.")
    if EmailAddress.objects.filter(user=user, email=user.email, verified=False).exists():
        return _(
            "Nobody has shown that this address is yours. Choose another password by a mail to it; that shows it."
        )
    return ""


def send_on_commit(message: EmailMessage, then: Callable[[], None] = lambda: None) -> None:
    """Send the mail after commit if mail is configured. A failure is logged and not retried; `then`
    runs after success.
    """
    if settings.BERTH_MAIL:
        transaction.on_commit(partial(_send, message, then), robust=True)


def _send(message: EmailMessage, then: Callable[[], None]) -> None:
    try:
        message.send()
    except (OSError, SMTPException) as error:
        log.warning("mail.lost", subject=message.subject, error=type(error).__name__)
        return
    then()


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
