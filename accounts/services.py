"""Writes of people."""

from datetime import datetime, timedelta

from allauth.account.models import EmailAddress
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _
from guardian.models import UserObjectPermission
from guardian.shortcuts import assign_perm

from accounts import tokens
from accounts.models import Domain, KeyPair, Membership, Project, SignInLink, User
from accounts.roles import DOMAIN_PERMISSIONS, PROJECT_PERMISSIONS, ProjectRole, Role
from accounts.selectors import access_keypair, require_superadmin, user_of, visible_keypairs
from common import audit, clock
from common.actors import Actor
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied

KEYPAIRS_PER_USER = 50
SIGN_IN_LINK_LIFETIME = timedelta(hours=24)


@transaction.atomic
def create_domain(*, actor: Actor, name: str, title: str = "") -> Domain:
    require_superadmin(actor)
    domain = Domain(name=name, title=title)
    _clean(domain)

    domain.save()
    audit.record(actor=actor, action="accounts.create_domain", target=domain)
    return domain


@transaction.atomic
def create_project(*, actor: Actor, domain: Domain, name: str, title: str = "") -> Project:
    require_superadmin(actor)
    project = Project(domain=domain, name=name, title=title)
    _clean(project)

    project.save()
    audit.record(actor=actor, action="accounts.create_project", target=project)
    return project


@transaction.atomic
def create_user(
    *, actor: Actor, email: str, password: str, domain: Domain, role: Role, name: str = ""
) -> User:
    """A person who can sign in at once. Raises InvalidInput for a weak password or a taken address."""
    require_superadmin(actor)
    user = User(email=email.lower(), name=name, domain=domain, role=role.value)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields={"password": error.messages}) from error
    user.set_password(password)
    _clean(user)

    user.save()
    _grant_domain_permissions(user)
    audit.record(actor=actor, action="accounts.create_user", target=user, changes={"role": role.value})
    return user


@transaction.atomic
def update_user(
    *, actor: Actor, user_id: int, email: str, name: str, domain: Domain, role: Role, is_active: bool
) -> User:
    """Another address, domain or role; closing an account ends its logins and tokens at the next request.

    In a new domain the person is in none of the old one's projects. Raises InvalidInput, and Conflict if
    superadmins would take role or account from themselves: so one always stays.
    """
    require_superadmin(actor)
    # All superadmins are locked, so that two of them cannot dismiss each other at the same moment.
    superadmins = User.objects.select_for_update().filter(role=Role.SUPERADMIN).order_by("pk")
    if not actor.is_system and actor.user_id not in {user.pk for user in superadmins}:
        raise PermissionDenied(_("Only a superadmin may do this."), hint=_("Ask a superadmin."))
    user = User.objects.select_for_update(of=("self",)).select_related("domain").get(pk=user_id)
    if user.pk == actor.user_id and (role is not Role.SUPERADMIN or not is_active):
        raise Conflict(
            _("You cannot take your own superadmin role or close your own account."),
            hint=_("Ask another superadmin to do it."),
        )
    has_new_email = user.email != email.lower()
    user.email, user.name, user.domain, user.role, user.is_active = email, name, domain, role.value, is_active
    _clean(user)

    user.save(update_fields=["email", "name", "domain", "role", "is_active"])
    if has_new_email:
        EmailAddress.objects.filter(user=user).delete()
    user.memberships.exclude(project__domain=domain).delete()
    _grant_domain_permissions(user)
    _grant_project_permissions(user)
    changes = {"email": user.email, "domain": domain.name, "role": role.value, "is_active": is_active}
    audit.record(actor=actor, action="accounts.update_user", target=user, changes=changes)
    return user


@transaction.atomic
def add_member(
    *, actor: Actor, project: Project, user: User, role: ProjectRole = ProjectRole.MEMBER
) -> Membership:
    """Put `user` into `project` of the same domain; again with another role changes the role."""
    require_superadmin(actor)
    if user.domain_id != project.domain_id:
        raise InvalidInput(
            _("{person} belongs to another domain than the project “{project}”.").format(
                person=user.email, project=project.name
            ),
            hint=_("People can only be members of projects of their own domain."),
        )

    membership = Membership.objects.update_or_create(
        project=project, user=user, defaults={"role": role.value}
    )[0]
    _grant_project_permissions(user)
    changes = {"user": user.email, "role": role.value}
    audit.record(actor=actor, action="accounts.add_member", target=project, changes=changes)
    return membership


@transaction.atomic
def remove_member(*, actor: Actor, project: Project, user: User) -> None:
    """Take `user` out of `project`; one who is not in it stays out."""
    require_superadmin(actor)

    Membership.objects.filter(project=project, user=user).delete()
    _grant_project_permissions(user)
    audit.record(actor=actor, action="accounts.remove_member", target=project, changes={"user": user.email})


@transaction.atomic
def create_keypair(*, actor: Actor, name: str, expires_at: datetime | None = None) -> tuple[KeyPair, str]:
    """A new keypair of the actor and its token text, which is shown this once.

    One made with a token ends no later than that token.
    """
    user = user_of(actor)
    try:
        name = tokens.check_token_name(name)
    except ValueError as error:
        raise InvalidInput(str(error), fields={"name": [str(error)]}) from error
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidInput(
            _("The token would have expired already."), fields={"expires_at": [_("Is in the past.")]}
        )
    User.objects.select_for_update().get(pk=user.pk)
    maker = visible_keypairs(actor).filter(pk=actor.keypair_id or 0).first()
    ends = [instant for instant in (expires_at, maker.expires_at if maker else None) if instant is not None]
    if KeyPair.objects.filter(user=user).count() >= KEYPAIRS_PER_USER:
        raise LimitExceeded(
            _("You have {count} tokens, the most allowed.").format(count=KEYPAIRS_PER_USER),
            hint=_("Delete one first."),
        )
    secret = tokens.new_secret()

    keypair = KeyPair.objects.create(
        user=user,
        name=name,
        access_key=tokens.new_access_key(),
        secret_hash=tokens.hash_secret(secret),
        expires_at=min(ends, default=None),
    )
    audit.record(actor=actor, action="accounts.create_keypair", target=keypair)
    return keypair, f"{keypair.access_key}.{secret}"


@transaction.atomic
def delete_keypair(*, actor: Actor, keypair_id: int) -> None:
    keypair = access_keypair(actor, keypair_id)
    audit.record(actor=actor, action="accounts.delete_keypair", target=keypair)
    keypair.delete()


@transaction.atomic
def create_sign_in_link(*, actor: Actor, user: User) -> str:
    """The one-time code of a link that signs `user` in within a day."""
    require_superadmin(actor)
    code = tokens.new_secret()
    SignInLink.objects.filter(expires_at__lt=clock.now()).delete()
    SignInLink.objects.create(
        user=user, code_hash=tokens.hash_secret(code), expires_at=clock.now() + SIGN_IN_LINK_LIFETIME
    )
    audit.record(actor=actor, action="accounts.create_sign_in_link", target=user)
    return code


@transaction.atomic
def redeem_sign_in_link(*, actor: Actor, code: str) -> User:
    """The user of an unused link; the link is used up in the same statement, so it works once."""
    links = SignInLink.objects.filter(code_hash=tokens.hash_secret(code), expires_at__gt=clock.now())
    link = links.select_for_update(of=("self",)).select_related("user__domain").first()
    if link is None or not link.user.is_active or not link.user.domain.is_active:
        raise NotFound(
            _("This sign-in link was used already or is too old."),
            hint=_("Start Berth again for a fresh one, or sign in with e-mail and password."),
        )
    link.delete()
    audit.record(actor=actor, action="accounts.redeem_sign_in_link", target=link.user)
    return link.user


def _grant_domain_permissions(user: User) -> None:
    """Make the object permissions of `user` on domains those of the role, no more and no less."""
    UserObjectPermission.objects.filter(
        user=user, content_type__app_label="accounts", content_type__model="domain"
    ).delete()
    for permission in DOMAIN_PERMISSIONS[Role(user.role)]:
        assign_perm(f"accounts.{permission}", user, user.domain)


def _grant_project_permissions(user: User) -> None:
    """The same for projects, from the memberships."""
    UserObjectPermission.objects.filter(
        user=user, content_type__app_label="accounts", content_type__model="project"
    ).delete()
    for membership in user.memberships.select_related("project"):
        for permission in PROJECT_PERMISSIONS[ProjectRole(membership.role)]:
            assign_perm(f"accounts.{permission}", user, membership.project)


def _clean(instance: Domain | Project | User) -> None:
    try:
        instance.full_clean(exclude=["password"])
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error
