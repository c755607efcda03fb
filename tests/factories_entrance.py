"""Create invitations, and domains that accept them."""

from typing import Any

from accounts.core.sign_up import SignUp
from accounts.models import Domain, Invitation, User
from accounts.tenancy import archiving, invitations
from common.actors import SYSTEM
from tests.factories import actor_for


def open_domain(domain: Domain, way: SignUp = SignUp.INVITATION, *mail_domains: str) -> Domain:
    changed = archiving.set_sign_up(actor=SYSTEM, domain_id=domain.pk, sign_up=way, mail_domains=mail_domains)
    domain.sign_up = changed.sign_up
    return domain


def make_invitation(domain: Domain, inviter: User, **wanted: Any) -> tuple[Invitation, str]:
    """Invite into a domain, which is opened for invitations.

    Returns the invitation and its code.
    """
    if domain.sign_up == SignUp.CLOSED:
        open_domain(domain)
    invitation, url = invitations.create_invitation(actor=actor_for(inviter), domain=domain.name, **wanted)
    return invitation, url.rstrip("/").rpartition("/")[2]
