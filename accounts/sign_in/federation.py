"""Accounts of identity providers: linking to existing accounts, proof of ownership, account
creation, group memberships.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.core.identity_providers import OnboardingRules, UnknownUser
from accounts.core.membership_rules import LONGEST_GROUP
from accounts.core.roles import Role
from accounts.logins.service import end_logins
from accounts.models import Domain, Membership, Project, User
from accounts.tenancy.service import add_member, create_user, delete_sign_in_links, remove_member
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.advisory_locks import lock_exclusive
from common.errors import BerthError, PermissionDenied
from common.values.text import check_text, check_unicode, normalised, quoted, shown

WAIT_S = 10

LONGEST_SUBJECT, LONGEST_EMAIL, LONGEST_NAME = 191, 254, 119


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """Identity reported by a provider. `subject` identifies the person there, permanently if
    `is_lasting`; `groups` is None if the provider reports none.
    """

    subject: str
    email: str
    is_verified: bool
    name: str = ""
    groups: frozenset[str] | None = None
    is_lasting: bool = True


def parse_identity(
    *,
    subject: object,
    email: str,
    is_verified: bool,
    name: str = "",
    groups: Iterable[str] | None = None,
    is_lasting: bool = True,
) -> ProviderIdentity:
    """Validate and normalise a provider's answer. In names invisible characters are replaced;
    groups that contain any are dropped; other groups are normalised like those in rules and
    settings. The subject is stored as received, because accounts are looked up by it. Raises
    ValueError for an invalid subject or address.
    """
    return ProviderIdentity(
        subject=_check_subject(subject),
        email=check_text(email, max_length=LONGEST_EMAIL),
        is_verified=is_verified,
        name=shown(name, LONGEST_NAME),
        groups=None
        if groups is None
        else frozenset(normalised(group) for group in groups if _is_group(group)),
        is_lasting=is_lasting,
    )


def _check_subject(subject: object) -> str:
    text = check_unicode(subject)
    check_text(text, max_length=LONGEST_SUBJECT)
    if len(text) > LONGEST_SUBJECT:  # normalisation form C may be shorter
        raise ValueError("The subject is too long to be kept.")
    return text


def _is_group(name: str) -> bool:
    try:
        check_text(name, max_length=LONGEST_GROUP)
    except ValueError:
        return False
    return True


class SignInRefused(PermissionDenied):
    """The provider knows the person, but Berth refuses the sign-in."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(
            message, hint=_("Ask an administrator, or sign in with a password."), code="sign_in_refused"
        )
        self.reason = reason  # code for the audit log


class ProofRequired(SignInRefused):
    """The address belongs to a used or administrator's account; its owner must prove ownership."""

    def __init__(self, user: User) -> None:
        super().__init__(
            _("The account of {name} was in use before, so it is connected only by whoever it is.").format(
                name=user.email
            ),
            reason="proof_needed",
        )
        self.hint = _(
            "Sign in here as you did until now, within ten minutes. From then on this way works by itself."
        )


def has_linked_provider(user: User) -> bool:
    """Return true if a provider or directory is linked to this user."""
    return bool(SocialAccount.objects.filter(user=user).exists())


@transaction.atomic
def admit_user(
    *, actor: Actor, provider_id: str, onboarding: OnboardingRules, identity: ProviderIdentity
) -> User:
    """Return the user's account, created if the provider may do so, with the memberships of its
    groups. An existing account matches by subject, or by an address that the provider vouches for
    if nobody has used the account yet (`_claim_unused_account`). Raises SignInRefused, ProofRequired.
    """
    email = identity.email.strip().lower()
    lock_exclusive(f"admit:{provider_id}:{identity.subject}", wait_s=WAIT_S)
    lock_exclusive(f"admit:{email}", wait_s=WAIT_S)
    known = SocialAccount.objects.filter(provider=provider_id, uid=identity.subject).first()
    system_actor = replace(SYSTEM, ip=actor.ip, request_id=actor.request_id, via=actor.via)
    if known is not None:
        user = User.objects.select_related("domain").get(pk=known.user_id)
        if not identity.is_lasting and user.email != email:
            raise SignInRefused(
                _("The account that came by this name has another address, {email}.").format(
                    email=user.email
                ),
                reason="address_changed",
            )
    else:
        _check_address(onboarding, identity, email)
        found = User.objects.select_related("domain").filter(email=email).first()
        user = found or _create_user(system_actor, onboarding, email, identity.name)
        _check_verified(user, is_new=found is None)
    if not user.is_active or not user.domain.is_active:
        raise SignInRefused(
            _("The account of {name} is closed.").format(name=user.email), reason="account_closed"
        )

    if known is None:
        precede_admissions()
        _claim_unused_account(user)
        _link(system_actor, user, provider_id, identity.subject)
    if identity.groups is not None and onboarding.groups is not None:
        _sync_groups(system_actor, user, onboarding, identity.groups)
    if (
        identity.groups is not None
    ):  # kept for membership rules of projects (accounts.tenancy.membership_sync)
        accounts = SocialAccount.objects.filter(provider=provider_id, uid=identity.subject)
        accounts.update(extra_data={"groups": sorted(identity.groups)})
    return user


@transaction.atomic
def link_proven_identity(*, actor: Actor, user: User, provider_id: str, subject: str, email: str) -> bool:
    """Link the subject of an earlier ProofRequired to `user`, who is signed in now. Returns False if
    `user` has another address or the subject is linked already.
    """
    lock_exclusive(f"admit:{provider_id}:{subject}", wait_s=WAIT_S)
    is_taken = SocialAccount.objects.filter(provider=provider_id, uid=subject).exists()
    if user.email != email or is_taken:
        return False
    _link(actor, user, provider_id, subject)
    return True


def _link(actor: Actor, user: User, provider_id: str, subject: str) -> None:
    SocialAccount.objects.create(user=user, provider=provider_id, uid=subject)
    facts = {"provider": provider_id}
    audit_log.record(actor=actor, action="accounts.link_provider", target=user, changes=facts)


def _claim_unused_account(user: User) -> None:
    """Prepare an unused account for its owner. Its creator knows its password or link, so these,
    keypairs and logins are removed. For used accounts and administrators' the owner must prove
    ownership first, by any other way of signing in. Raises ProofRequired.
    """
    if user.last_login is not None or user.role != Role.USER:
        raise ProofRequired(user)
    user.set_unusable_password()
    user.must_change_password = False
    user.save(update_fields=["password", "must_change_password"])
    user.keypairs.all().delete()
    delete_sign_in_links(user)
    end_logins(user.pk)


def _check_address(onboarding: OnboardingRules, identity: ProviderIdentity, email: str) -> None:
    if not email or not identity.is_verified:
        raise SignInRefused(
            _("The provider does not say which verified e-mail address is yours."),
            reason="address_not_verified",
        )
    if not onboarding.vouches_for(email):
        raise SignInRefused(
            _("The provider's word does not count here for the address {email}.").format(
                email=quoted(email, 80)
            ),
            reason="address_not_trusted",
        )


def _check_verified(user: User, *, is_new: bool) -> None:
    """Refuse an account with an unverified address: the user who typed it into an invitation need
    not own it and would share the account with its owner. Raises SignInRefused.
    """
    if not is_new and EmailAddress.objects.filter(user=user, verified=False).exists():
        raise SignInRefused(
            _("The account of {name} was created by somebody who did not prove that address.").format(
                name=user.email
            ),
            reason="address_not_verified",
        )


def _create_user(system_actor: Actor, onboarding: OnboardingRules, email: str, name: str) -> User:
    if onboarding.unknown is UnknownUser.REFUSE:
        raise SignInRefused(
            _("Nobody here has the address {email}.").format(email=quoted(email, 80)),
            reason="unknown_address",
        )
    domain = Domain.objects.filter(name=onboarding.domain, is_active=True).first()
    if domain is None:
        raise SignInRefused(_("The domain for new people is not there or closed."), reason="no_domain")
    try:
        user = create_user(
            actor=system_actor, email=email, password=None, domain=domain, role=Role.USER, name=name[:120]
        )
    except BerthError as refusal:
        raise SignInRefused(refusal.message, reason="not_created") from refusal
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=True)
    for project in Project.objects.filter(domain=domain, name__in=onboarding.projects, is_active=True):
        add_member(actor=system_actor, project=project, user=user)
    return user


def _sync_groups(
    system_actor: Actor, user: User, onboarding: OnboardingRules, groups: frozenset[str]
) -> None:
    """Align memberships with groups in the projects that the settings map to groups. Other
    projects, and projects with membership rules, are left alone.
    """
    wanted = onboarding.projects_of_groups(groups)
    mapped = Project.objects.filter(domain=user.domain, name__in=onboarding.mapped_projects, is_active=True)
    mapped = mapped.filter(rules=None)
    present = set(Membership.objects.filter(user=user).values_list("project_id", flat=True))
    for project in mapped.order_by("pk"):
        if project.name in wanted and project.pk not in present:
            add_member(actor=system_actor, project=project, user=user)
        if project.name not in wanted and project.pk in present:
            remove_member(actor=system_actor, project=project, user=user)


PENDING_LINK = "link_waits"

PENDING_LINK_S = 600


def store_pending_link(request: Any, provider_id: str, identity: ProviderIdentity) -> None:
    request.session[PENDING_LINK] = {
        "provider_id": provider_id,
        "subject": identity.subject,
        "email": identity.email.strip().lower(),
        "until": clock.now().timestamp() + PENDING_LINK_S,
    }


def complete_pending_link(request: Any, *, actor: Actor, user: User) -> None:
    """Link the identity that waits for proof in this browser, if it belongs to the signed-in `user`."""
    waiting = request.session.pop(PENDING_LINK, None)
    if waiting is not None and waiting.pop("until") > clock.now().timestamp():
        link_proven_identity(actor=actor, user=user, **waiting)
