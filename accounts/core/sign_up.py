"""Rules of sign-up and invitations: sign-up modes, mail domains, states of an invitation. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from common.i18n import gettext as _
from common.i18n import gettext_noop
from common.values.text import quoted

MOST_MAIL_DOMAINS = 50
_MAIL_DOMAIN = re.compile(r"(?=.{3,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")


class SignUp(StrEnum):
    """Sign-up mode of a domain; each mode also allows what the one before does. Administrators can
    always add users.
    """

    CLOSED = "closed"
    INVITATION = "invitation"
    OPEN = "open"


SIGN_UP_TITLES = {
    SignUp.CLOSED: gettext_noop("Closed: administrators add people"),
    SignUp.INVITATION: gettext_noop("By invitation: people with a link create their account themselves"),
    SignUp.OPEN: gettext_noop("Open: whoever has an e-mail address of the domain, too"),
}


class InvitationState(StrEnum):
    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VOID = "void"  # the inviter lost the permission, or the domain accepts nobody this way


def mail_domain(email: str) -> str:
    """Return the part after the @ in lower case; "" if there is none."""
    return email.strip().lower().rpartition("@")[2] if "@" in email else ""


def check_mail_domains(names: Sequence[str]) -> list[str]:
    """Return the names in lower case, without duplicates and without a leading @. Raises ValueError
    with a sentence.
    """
    found = list(dict.fromkeys(name.strip().lower().removeprefix("@") for name in names if name.strip()))
    for name in found:
        if not _MAIL_DOMAIN.fullmatch(name):
            raise ValueError(_("{name} is no mail domain, such as “uni.example”.").format(name=quoted(name)))
    if len(found) > MOST_MAIL_DOMAINS:
        raise ValueError(_("At most {most} of them.").format(most=MOST_MAIL_DOMAINS))
    return found


def invitation_state(
    *, now: datetime, expires_at: datetime, is_revoked: bool, is_used_up: bool, is_backed: bool
) -> InvitationState:
    """Return the state of an invitation. `is_backed`: the inviter may still add such a user, and
    the domain accepts users this way.
    """
    if is_used_up:
        return InvitationState.USED
    if is_revoked:
        return InvitationState.REVOKED
    if expires_at <= now:
        return InvitationState.EXPIRED
    return InvitationState.OPEN if is_backed else InvitationState.VOID
