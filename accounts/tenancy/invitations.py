"""Invitations and sign-up: links by which people create their own accounts. The secret in a link is
stored as a hash.

An inviter gives no more than by creating the account directly. Permissions are checked again on
acceptance, so an invitation is void once the inviter has lost them.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.admission_gate import precede_admissions
from accounts.core import authorization, token_secrets
from accounts.core.authorization import Action, ActorScope
from accounts.core.roles import Role
from accounts.core.sign_up import InvitationState, SignUp, invitation_state, mail_domain
from accounts.locks import lock_users
from accounts.logins import mails
from accounts.models import Domain, Invitation, MailDomain, Project, ResourcePolicy, User
from accounts.policies.service import assign_policy
from accounts.selectors import (
    find_domain,
    manageable_projects,
    overseen_domain_ids,
    permission_refusal,
    read_actor_scope,
    require_superadmin,
    sees_everything,
)
from accounts.tenancy.service import add_member, create_user, require_may_create
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.values.text import quoted

DEFAULT_DAYS, MOST_DAYS = 7, 90
MAX_USES = 1000
SIGN_UP_LIFETIME = timedelta(hours=24)


def visible_invitations(actor: Actor) -> QuerySet[Invitation]:
    """Invitations of the own domain for its admin and monitor; all for superadmins and monitors.
    Links mailed during sign-up are not included.
    """
    invitations = Invitation.objects.select_related("domain", "inviter", "policy").exclude(inviter=None)
    return (
        invitations
        if sees_everything(actor)
        else invitations.filter(domain_id__in=overseen_domain_ids(actor))
    )


def access_invitation(actor: Actor, invitation_id: int) -> Invitation:
    """Fetch one visible invitation. Raises NotFound."""
    invitation = visible_invitations(actor).filter(pk=invitation_id).first()
    if invitation is None:
        raise NotFound(_("There is no such invitation among those that you may see."))
    return invitation


def current_state(invitation: Invitation) -> InvitationState:
    """Return the state of an invitation. No query if domain and inviter were fetched with it."""
    return invitation_state(
        now=clock.now(),
        expires_at=invitation.expires_at,
        is_revoked=invitation.revoked_at is not None,
        is_used_up=invitation.used >= invitation.uses,
        is_backed=_may_still_invite(invitation),
    )


def find_open_invitation(code: str) -> Invitation:
    """Return the open invitation of this code. Raises NotFound, Conflict. 2 queries."""
    return _open_invitation(code, Invitation.objects.all())


@transaction.atomic
def create_invitation(  # noqa: PLR0913 -- all by name
    *,
    actor: Actor,
    email: str = "",
    domain: str = "",
    role: Role = Role.USER,
    projects: Sequence[str] = (),
    policy: ResourcePolicy | None = None,
    days: int = DEFAULT_DAYS,
    uses: int = 1,
) -> tuple[Invitation, str]:
    """Create an invitation and return it with its address, which is shown only once. Also mailed if
    `email` is given and mail is configured. `domain` "" means the actor's own. Raises InvalidInput,
    NotFound, PermissionDenied, Conflict.
    """
    home = find_domain(actor, domain)
    require_may_create(actor, role, home)
    if policy is not None:
        require_superadmin(actor)
    email = _check_invitation(home, email, days=days, uses=uses)
    wanted = _find_projects(actor, home, projects)
    code = token_secrets.new_secret()

    invitation = Invitation.objects.create(
        domain=home, inviter_id=actor.user_id, email=email, role=role.value, policy=policy, uses=uses,
        code_hash=token_secrets.hash_secret(code), expires_at=clock.now() + timedelta(days=days),
    )  # fmt: skip
    invitation.projects.set(wanted)
    facts = {
        "email": email,
        "role": role.value,
        "domain": home.name,
        "projects": [each.name for each in wanted],
    }
    audit_log.record(actor=actor, action="accounts.create_invitation", target=invitation, changes=facts)
    url = invitation_url(code)
    if email:
        mails.send_on_commit(
            mails.invitation_mail(invitation, url), then=lambda: _record_mailed(invitation.pk)
        )
    return invitation, url


@transaction.atomic
def revoke_invitation(*, actor: Actor, invitation_id: int) -> Invitation:
    """Revoke an invitation for good. Accounts created by it stay. Raises NotFound, PermissionDenied."""
    Invitation.objects.select_for_update().filter(pk=invitation_id).first()
    invitation = access_invitation(actor, invitation_id)
    if not authorization.assignable_roles(read_actor_scope(actor)):
        raise permission_refusal(
            _("You may not revoke invitations into the domain “{name}”."), invitation.domain.name
        )
    if invitation.revoked_at is None:
        invitation.revoked_at = clock.now()
        invitation.save(update_fields=["revoked_at"])
        audit_log.record(actor=actor, action="accounts.revoke_invitation", target=invitation)
    return invitation


@transaction.atomic
def accept_invitation(*, actor: Actor, code: str, password: str, name: str = "", email: str = "") -> User:
    """Create the account of a person who has the link. `email` applies only to an invitation
    without an address. Raises NotFound, Conflict (used, expired, revoked, void), InvalidInput.
    """
    find_open_invitation(code)  # a wrong code holds nobody up
    precede_admissions()
    invitation = _open_invitation(code, Invitation.objects.select_for_update(of=("self",)))
    inviter_actor = _inviter_actor(invitation, actor)
    address = invitation.email or email.strip()
    try:
        user = create_user(
            actor=inviter_actor, email=address, password=password, name=name, domain=invitation.domain,
            role=Role(invitation.role),
        )  # fmt: skip
        for project in invitation.projects.filter(is_active=True):
            add_member(actor=inviter_actor, project=project, user=user)
        if invitation.policy is not None:
            assign_policy(actor=inviter_actor, target=user, policy=invitation.policy)
    except (PermissionDenied, NotFound) as refusal:
        raise _state_error(InvitationState.VOID) from refusal

    invitation.used += 1
    invitation.save(update_fields=["used"])
    if invitation.inviter_id is None or not invitation.email:
        EmailAddress.objects.create(
            user=user, email=user.email, primary=True, verified=invitation.inviter_id is None
        )
    audit_log.record(
        actor=actor, action="accounts.accept_invitation", target=invitation, changes={"user": user.email}
    )
    return user


@transaction.atomic
def request_sign_up(*, actor: Actor, email: str) -> None:
    """Mail a link that creates an account, if a domain is open to the address. Only the mail
    reveals an existing account. Raises InvalidInput, PermissionDenied (no domain is open to it),
    Conflict (mail is not configured).
    """
    _require_mail()
    email = _check_address(email)
    domain = _find_open_domain(email)
    if domain is None:
        sentence = _("Nobody signs up here with an address of {name}.").format(
            name=quoted(mail_domain(email), 80)
        )
        raise PermissionDenied.at("email", sentence, hint=_("Ask an administrator for an invitation."))

    audit_log.record(actor=actor, action="accounts.ask_to_sign_up", target=domain, changes={"email": email})
    if User.objects.filter(email=email).exists():
        mails.send_on_commit(mails.existing_account_mail(email))
        return
    code = token_secrets.new_secret()
    Invitation.objects.filter(inviter=None, email=email, used=0).delete()
    Invitation.objects.create(
        domain=domain, email=email, code_hash=token_secrets.hash_secret(code),
        expires_at=clock.now() + SIGN_UP_LIFETIME,
    )  # fmt: skip
    mails.send_on_commit(mails.sign_up_mail(email, invitation_url(code)))


def is_sign_up_open() -> bool:
    """Return true if some domain is open for sign-up. At most one query."""
    if not settings.BERTH_MAIL:
        return False
    return MailDomain.objects.filter(domain__sign_up=SignUp.OPEN, domain__is_active=True).exists()


def invitation_url(code: str) -> str:
    return str(settings.BERTH_URL + reverse("invitation", args=[code]))


def purge_invitations() -> None:
    """Delete invitations 90 days after expiry, and expired sign-up links at once. The audit log
    keeps their creation.
    """
    Invitation.objects.filter(expires_at__lt=clock.now() - timedelta(days=90)).delete()
    Invitation.objects.filter(inviter=None, expires_at__lt=clock.now()).delete()


def _open_invitation(code: str, invitations: QuerySet[Invitation]) -> Invitation:
    found = invitations.filter(code_hash=token_secrets.hash_secret(code))
    invitation = found.select_related("domain", "inviter", "policy").first()
    if invitation is None:
        raise NotFound(
            _("There is no such invitation."), hint=_("Copy the whole link, or ask for another one.")
        )
    state = current_state(invitation)
    if state is not InvitationState.OPEN:
        raise _state_error(state)
    return invitation


def _state_error(state: InvitationState) -> Conflict:
    sentences = {
        InvitationState.USED: _("This invitation was used already."),
        InvitationState.EXPIRED: _("This invitation is too old."),
        InvitationState.REVOKED: _("This invitation was revoked."),
        InvitationState.VOID: _("Whoever invited you may not do so any more."),
    }
    return Conflict(
        sentences[state], hint=_("Ask for another one; if you created your account already, sign in.")
    )


def _may_still_invite(invitation: Invitation) -> bool:
    """Return true if the inviter may still add such a user and the domain accepts users this way.
    Judges the rows as given; `accept_invitation` repeats it under lock.
    """
    domain, inviter = invitation.domain, invitation.inviter
    if not domain.is_active or domain.sign_up == SignUp.CLOSED:
        return False
    if inviter is None:
        return domain.sign_up == SignUp.OPEN and _has_mail_domain(invitation.email, domain)
    actor_scope = ActorScope(user_id=inviter.pk, role=Role(inviter.role), domain_id=inviter.domain_id)
    allowed = authorization.user_actions(
        actor_scope, user_id=0, role=Role(invitation.role), domain_id=invitation.domain_id
    )
    return inviter.is_active and Action.CREATE in allowed


def _inviter_actor(invitation: Invitation, actor: Actor) -> Actor:
    """Lock and re-read inviter and domain, and return the actor of the acceptance: the inviter with
    the origin of the request, or the system for a sign-up. Raises Conflict if the invitation is
    void.
    """
    people = lock_users(SYSTEM, invitation.inviter_id or 0)
    invitation.domain = Domain.objects.select_for_update(no_key=True).get(pk=invitation.domain_id)
    invitation.inviter = people.get(invitation.inviter_id or 0)
    if not _may_still_invite(invitation):
        raise _state_error(InvitationState.VOID)
    inviter = invitation.inviter
    if inviter is None:
        return replace(SYSTEM, ip=actor.ip, request_id=actor.request_id, via=actor.via)
    return Actor(
        kind=ActorKind.USER, user_id=inviter.pk, label=inviter.email, domain_id=inviter.domain_id,
        is_superadmin=inviter.is_superuser, ip=actor.ip, request_id=actor.request_id, via=actor.via,
        user_agent=actor.user_agent,
    )  # fmt: skip


def _check_invitation(domain: Domain, email: str, *, days: int, uses: int) -> str:
    if domain.sign_up == SignUp.CLOSED:
        raise Conflict(
            _("The domain “{name}” takes nobody by invitation.").format(name=domain.name),
            hint=_("A superadmin can allow it on the page of the domain."),
            fields={"domain": [_("Its sign-up is closed.")]},
        )
    if not 1 <= days <= MOST_DAYS:
        sentence = ngettext("Give {most} day at most.", "Give 1 to {most} days.", MOST_DAYS).format(
            most=MOST_DAYS
        )
        raise InvalidInput.at("days", sentence)
    if not 1 <= uses <= (1 if email else MAX_USES):
        sentence = _("An invitation for one address works once; others up to {most} times.").format(
            most=MAX_USES
        )
        raise InvalidInput.at("uses", sentence)
    if not email:
        return ""
    email = _check_address(email)
    if User.objects.filter(email=email).exists():
        raise Conflict.at("email", _("Somebody with this address has an account already."))
    return email


def _check_address(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields={"email": error.messages}) from error
    return email


def _find_projects(actor: Actor, domain: Domain, names: Sequence[str]) -> list[Project]:
    found = manageable_projects(actor).filter(domain=domain, name__in=names, is_active=True)
    by_name = {project.name: project for project in found}
    for name in names:
        if name not in by_name:
            sentence = _("There is no project {name} in this domain.").format(name=quoted(name, 64))
            raise NotFound.at("projects", sentence)
    return list(by_name.values())


def _require_mail() -> None:
    if not settings.BERTH_MAIL:
        raise Conflict(
            _("Nobody can sign up here, because Berth cannot send mail."),
            hint=_("Ask an administrator for an account, or for an invitation."),
        )


def _find_open_domain(email: str) -> Domain | None:
    home = MailDomain.objects.select_related("domain").filter(name=mail_domain(email)).first()
    is_open = home is not None and home.domain.is_active and home.domain.sign_up == SignUp.OPEN
    return home.domain if home is not None and is_open else None


def _has_mail_domain(email: str, domain: Domain) -> bool:
    return MailDomain.objects.filter(domain=domain, name=mail_domain(email)).exists()


def _record_mailed(invitation_id: int) -> None:
    Invitation.objects.filter(pk=invitation_id).update(mailed_at=clock.now())
