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
from accounts.core.identity_providers import Admission, Unknown
from accounts.core.membership_rules import LONGEST_GROUP
from accounts.core.roles import Role
from accounts.logins.service import end_logins
from accounts.models import Domain, Membership, Project, User
from accounts.tenancy.service import add_member, create_user, forget_sign_in_links, remove_member
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.advisory_locks import lock_exclusive
from common.errors import BerthError, PermissionDenied
from common.values.text import check_text, check_unicode, normalised, quoted, shown

WAIT_S = 10

LONGEST_SUBJECT, LONGEST_EMAIL, LONGEST_NAME = 191, 254, 119


@dataclass(frozen=True, slots=True)
class Claim:
    """Identity reported by a provider. `subject` identifies the person there, permanently if
    `is_lasting`; `groups` is None if the provider reports none.
    """

    subject: str
    email: str
    is_verified: bool
    name: str = ""
    groups: frozenset[str] | None = None
    is_lasting: bool = True


def read_claim(
    *,
    subject: object,
    email: str,
    is_verified: bool,
    name: str = "",
    groups: Iterable[str] | None = None,
    is_lasting: bool = True,
) -> Claim:
    """Validate and normalise a provider's answer. In names invisible characters are replaced;
    groups that contain any are dropped; other groups are normalised like those in rules and
    settings. The subject is stored as received, because accounts are looked up by it. Raises
    ValueError for an invalid subject or address.
    """
    return Claim(
        subject=_checked_subject(subject),
        email=check_text(email, max_length=LONGEST_EMAIL),
        is_verified=is_verified,
        name=shown(name, LONGEST_NAME),
        groups=None
        if groups is None
        else frozenset(normalised(group) for group in groups if _is_group(group)),
        is_lasting=is_lasting,
    )


def _checked_subject(subject: object) -> str:
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


class NoAccount(PermissionDenied):
    """The provider knows the person, but Berth refuses the sign-in."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(
            message, hint=_("Ask an administrator, or sign in with a password."), code="sign_in_refused"
        )
        self.reason = reason  # code for the audit log


class ProofNeeded(NoAccount):
    """The address belongs to an account that is in use or an administrator's; its owner must prove
    ownership.
    """

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


def is_vouched_for(user: User) -> bool:
    """Return true if a provider or directory is linked to this user."""
    return bool(SocialAccount.objects.filter(user=user).exists())


@transaction.atomic
def admit_person(*, actor: Actor, provider_id: str, admission: Admission, claim: Claim) -> User:
    """Return the user's account, created if the provider may do so, with the memberships of its
    groups. An existing account matches by subject, or by an address that the provider vouches for
    if nobody has used the account yet (`_take_over`). Raises NoAccount, ProofNeeded.
    """
    email = claim.email.strip().lower()
    lock_exclusive(f"admit:{provider_id}:{claim.subject}", wait_s=WAIT_S)
    lock_exclusive(f"admit:{email}", wait_s=WAIT_S)
    known = SocialAccount.objects.filter(provider=provider_id, uid=claim.subject).first()
    behind = replace(SYSTEM, ip=actor.ip, request_id=actor.request_id, via=actor.via)
    if known is not None:
        user = User.objects.select_related("domain").get(pk=known.user_id)
        if not claim.is_lasting and user.email != email:
            raise NoAccount(
                _("The account that came by this name has another address, {email}.").format(
                    email=user.email
                ),
                reason="address_changed",
            )
    else:
        _check_address(admission, claim, email)
        found = User.objects.select_related("domain").filter(email=email).first()
        user = found or _make_person(behind, admission, email, claim.name)
        _check_vouched(user, is_new=found is None)
    if not user.is_active or not user.domain.is_active:
        raise NoAccount(
            _("The account of {name} is closed.").format(name=user.email), reason="account_closed"
        )

    if known is None:
        precede_admissions()
        _take_over(user)
        _link(behind, user, provider_id, claim.subject)
    if claim.groups is not None and admission.groups is not None:
        _follow_groups(behind, user, admission, claim.groups)
    if claim.groups is not None:  # kept for membership rules of projects (accounts.tenancy.membership_sync)
        its = SocialAccount.objects.filter(provider=provider_id, uid=claim.subject)
        its.update(extra_data={"groups": sorted(claim.groups)})
    return user


@transaction.atomic
def link_proved(*, actor: Actor, user: User, provider_id: str, subject: str, email: str) -> bool:
    """Link the subject of an earlier ProofNeeded to `user`, who is signed in now. Returns False if
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


def _take_over(user: User) -> None:
    """Prepare an unused account for its owner. Its creator knows its password or link, so these,
    keypairs and logins are removed. For used accounts and administrators' the owner must prove
    ownership first, by any other way of signing in. Raises ProofNeeded.
    """
    if user.last_login is not None or user.role != Role.USER:
        raise ProofNeeded(user)
    user.set_unusable_password()
    user.must_change_password = False
    user.save(update_fields=["password", "must_change_password"])
    user.keypairs.all().delete()
    forget_sign_in_links(user)
    end_logins(user.pk)


def _check_address(admission: Admission, claim: Claim, email: str) -> None:
    if not email or not claim.is_verified:
        raise NoAccount(
            _("The provider does not say which verified e-mail address is yours."),
            reason="address_not_verified",
        )
    if not admission.vouches_for(email):
        raise NoAccount(
            _("The provider's word does not count here for the address {email}.").format(
                email=quoted(email, 80)
            ),
            reason="address_not_trusted",
        )


def _check_vouched(user: User, *, is_new: bool) -> None:
    """Refuse an account with an unverified address: the user who typed it into an invitation need
    not own it and would share the account with its owner. Raises NoAccount.
    """
    if not is_new and EmailAddress.objects.filter(user=user, verified=False).exists():
        raise NoAccount(
            _("The account of {name} was created by somebody who did not prove that address.").format(
                name=user.email
            ),
            reason="address_not_verified",
        )


def _make_person(behind: Actor, admission: Admission, email: str, name: str) -> User:
    if admission.unknown is Unknown.REFUSE:
        raise NoAccount(
            _("Nobody here has the address {email}.").format(email=quoted(email, 80)),
            reason="unknown_address",
        )
    domain = Domain.objects.filter(name=admission.domain, is_active=True).first()
    if domain is None:
        raise NoAccount(_("The domain for new people is not there or closed."), reason="no_domain")
    try:
        user = create_user(
            actor=behind, email=email, password=None, domain=domain, role=Role.USER, name=name[:120]
        )
    except BerthError as refusal:
        raise NoAccount(refusal.message, reason="not_created") from refusal
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=True)
    for project in Project.objects.filter(domain=domain, name__in=admission.projects, is_active=True):
        add_member(actor=behind, project=project, user=user)
    return user


def _follow_groups(behind: Actor, user: User, admission: Admission, groups: frozenset[str]) -> None:
    """Align memberships with groups in the projects that the settings map to groups. Other
    projects, and projects with membership rules, are left alone.
    """
    wanted = admission.projects_of_groups(groups)
    mapped = Project.objects.filter(domain=user.domain, name__in=admission.mapped_projects, is_active=True)
    mapped = mapped.filter(rules=None)
    present = set(Membership.objects.filter(user=user).values_list("project_id", flat=True))
    for project in mapped.order_by("pk"):
        if project.name in wanted and project.pk not in present:
            add_member(actor=behind, project=project, user=user)
        if project.name not in wanted and project.pk in present:
            remove_member(actor=behind, project=project, user=user)


WAITING = "link_waits"

WAITS_S = 600


def wait_for_proof(request: Any, provider_id: str, claim: Claim) -> None:
    request.session[WAITING] = {
        "provider_id": provider_id,
        "subject": claim.subject,
        "email": claim.email.strip().lower(),
        "until": clock.now().timestamp() + WAITS_S,
    }


def accept_proof(request: Any, *, actor: Actor, user: User) -> None:
    """Link the identity that waits for proof in this browser, if it belongs to the signed-in
    `user`.
    """
    waiting = request.session.pop(WAITING, None)
    if waiting is not None and waiting.pop("until") > clock.now().timestamp():
        link_proved(actor=actor, user=user, **waiting)
