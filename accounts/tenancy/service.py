"""Creates and changes domains, projects, users, memberships and sign-in links."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from allauth.account.models import EmailAddress
from django.contrib.auth.models import Permission
from django.contrib.auth.password_validation import validate_password
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from guardian.models import UserObjectPermission

from accounts.admission_gate import precede_admissions
from accounts.core import authorization, token_secrets
from accounts.core.authorization import Action, ActorScope
from accounts.core.roles import DOMAIN_PERMISSIONS, PROJECT_PERMISSIONS, ROLE_TITLES, ProjectRole, Role
from accounts.limits import default_policy
from accounts.locks import lock_users
from accounts.models import Domain, Membership, Project, SignInLink, User
from accounts.selectors import (
    access_project,
    access_user,
    permission_refusal,
    read_actor_scope,
    require_superadmin,
)
from accounts.tenancy.membership_rules import matching_users, read_rules
from accounts.tenancy.owned_resources import blocking_resources
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.validation import validate_model
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied

SIGN_IN_LINK_LIFETIME = timedelta(hours=24)


@transaction.atomic
def create_domain(*, actor: Actor, name: str, title: str = "") -> Domain:
    if Action.CREATE not in authorization.domain_actions(read_actor_scope(actor), 0):
        raise PermissionDenied(_("Only a superadmin may do this."), hint=_("Ask a superadmin."))
    domain = Domain(name=name, title=title)
    validate_model(domain)

    domain.save()
    audit_log.record(actor=actor, action="accounts.create_domain", target=domain)
    return domain


@transaction.atomic
def create_project(*, actor: Actor, domain: Domain, name: str, title: str = "") -> Project:
    if Action.CREATE not in authorization.project_actions(
        read_actor_scope(actor), project_id=0, domain_id=domain.pk
    ):
        raise permission_refusal(_("You may not create projects in the domain “{name}”."), domain.name)
    project = Project(domain=domain, name=name, title=title)
    validate_model(project)

    project.save()
    audit_log.record(actor=actor, action="accounts.create_project", target=project)
    return project


@transaction.atomic
def create_user(
    *, actor: Actor, email: str, password: str | None, domain: Domain, role: Role, name: str = ""
) -> User:
    """Create a user; without a password the user signs in by a link (`create_sign_in_link`). Raises
    InvalidInput for a weak password or taken address, PermissionDenied for a role above the actor's
    own.
    """
    require_may_create(actor, role, domain)
    precede_admissions()
    lock_users(actor)
    require_may_create(actor, role, domain)
    user = User(email=email.lower(), name=name, domain=domain, role=role.value, policy=default_policy())
    _set_password(user, password)
    validate_model(user)

    _save_user(user)
    grant_domain_permissions(user)
    audit_log.record(actor=actor, action="accounts.create_user", target=user, changes={"role": role.value})
    return user


@transaction.atomic
def update_user(
    *,
    actor: Actor,
    user_id: int,
    email: str | None = None,
    name: str | None = None,
    domain: Domain | None = None,
    role: Role | None = None,
) -> User:
    """Set address, name, domain or role; None keeps the value. A new role other than user deletes
    the user's keypairs.

    Raises NotFound, PermissionDenied, InvalidInput, and Conflict for the actor's own role, the last
    superadmin, and a user with resources in the old domain.
    """
    people = lock_user(actor, user_id, Action.EDIT)
    user = access_user(actor, user_id, Action.EDIT)
    rises = False
    before = {"email": user.email, "name": user.name, "domain": user.domain.name, "role": user.role}
    if role is not None and role != user.role:
        _check_new_role(actor, user, role, people)
        rises = role is not Role.USER
        user.role = role.value
    if domain is not None and domain != user.domain:
        access_user(actor, user_id, Action.MOVE)
        _remove_rule_memberships(user)
        _check_can_move(user)
        user.domain = domain
        if user.policy is not None and user.policy.domain_id not in (None, domain.pk):
            user.policy = default_policy()
        user.keypairs.exclude(policy__domain=None).exclude(policy__domain=domain).update(policy=None)
    if email is not None and email.lower() != user.email and _is_in_use(user):
        # Password reset links go to the address, so changing it can take over the account.
        require_superadmin(actor)
    user.email = user.email if email is None else email
    user.name = user.name if name is None else name
    validate_model(user)

    _save_user(user, update_fields=["email", "name", "domain", "role", "policy"])
    if user.email != before["email"]:
        EmailAddress.objects.filter(user=user).delete()
    if (user.email, user.domain.name, user.role) != (before["email"], before["domain"], before["role"]):
        delete_sign_in_links(user)  # they may have been created for other rights
    if rises:
        user.keypairs.all().delete()  # they were issued for a lower role
    grant_domain_permissions(user)
    after = {"email": user.email, "name": user.name, "domain": user.domain.name, "role": user.role}
    audit_log.record(
        actor=actor, action="accounts.update_user", target=user, changes=audit_log.changed(before, after)
    )
    return user


@transaction.atomic
def add_member(
    *, actor: Actor, project: Project, user: User, role: ProjectRole = ProjectRole.MEMBER
) -> Membership:
    """Add `user` to `project` of the same domain, or change the role of a member. A member added by
    a rule becomes one added by hand. Raises NotFound, PermissionDenied, InvalidInput, Conflict
    (closed account).
    """
    access_project(actor, project.pk, Action.MANAGE_MEMBERS)
    precede_admissions()
    # Serialised with closing the account, because a closed account has no memberships.
    fresh = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if fresh.domain_id != project.domain_id:
        raise InvalidInput(
            _("{person} belongs to another domain than the project “{project}”.").format(
                person=user.email, project=project.name
            ),
            hint=_("People can only be members of projects of their own domain."),
        )
    if not fresh.is_active:
        raise Conflict(
            _("The account of {name} is closed.").format(name=user.email), hint=_("Open it again first.")
        )

    membership = Membership.objects.update_or_create(
        project=project, user=user, defaults={"role": role.value, "is_by_rule": False}
    )[0]
    grant_project_permissions(user)
    changes = {"user": user.email, "role": role.value}
    audit_log.record(actor=actor, action="accounts.add_member", target=project, changes=changes)
    return membership


@transaction.atomic
def remove_member(*, actor: Actor, project: Project, user: User) -> None:
    """Remove `user` from `project`; no effect on others. Raises NotFound, PermissionDenied,
    Conflict if a membership rule would add the user again.
    """
    access_project(actor, project.pk, Action.MANAGE_MEMBERS)
    precede_admissions()
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    is_member = Membership.objects.filter(project=project, user=user).exists()
    if is_member and not actor.is_system and _matches_rule(project, user):
        raise Conflict(
            _("{name} is in the project “{project}” by a rule.").format(
                name=user.email, project=project.name
            ),
            hint=_("Change the rules of the project."),
        )

    for membership in Membership.objects.filter(project=project, user=user):
        membership.delete()
    grant_project_permissions(user)
    audit_log.record(
        actor=actor, action="accounts.remove_member", target=project, changes={"user": user.email}
    )


def lock_user(actor: Actor, user_id: int, action: Action, *others: int) -> dict[int, User]:
    """Lock like `lock_users` for an action on one user, before admissions that begin later. Check
    the right again afterwards. Raises NotFound, PermissionDenied.
    """
    access_user(actor, user_id, action)
    precede_admissions()
    return lock_users(actor, user_id, *others)


def require_another_superadmin(people: Mapping[int, User], leaving: User) -> None:
    """Require another active superadmin among the locked `people`. Raises Conflict."""
    others = (user for user in people.values() if user.pk != leaving.pk)
    if not any(user.is_superuser and user.domain.is_active for user in others):
        raise Conflict(
            _("{name} is the last superadmin; Berth cannot be without one.").format(name=leaving.email),
            hint=_("Make somebody else a superadmin first."),
        )


def require_may_create(actor: Actor, role: Role, domain: Domain) -> None:
    """Raise PermissionDenied unless the actor may create such an account."""
    actor_scope = read_actor_scope(actor)
    if Action.CREATE not in authorization.user_actions(
        actor_scope, user_id=0, role=role, domain_id=domain.pk
    ):
        raise creation_refusal(actor_scope, role, domain)


def _check_new_role(actor: Actor, user: User, role: Role, people: Mapping[int, User]) -> None:
    if role not in authorization.assignable_roles(read_actor_scope(actor)):
        raise _role_refusal(role)
    if user.pk == actor.user_id:
        raise Conflict(_("You cannot change your own role."), hint=_("Ask another administrator to do it."))
    if user.role == Role.SUPERADMIN and user.is_active:
        require_another_superadmin(people, user)


def _remove_rule_memberships(user: User) -> None:
    """Remove memberships that rules made or would make from a user who changes domain."""
    for membership in user.memberships.select_related("project"):
        if not (membership.is_by_rule or _matches_rule(membership.project, user)):
            continue
        facts = {"user": user.email, "by_rule": True}
        audit_log.record(
            actor=SYSTEM, action="accounts.remove_member", target=membership.project, changes=facts
        )
        membership.delete()
    grant_project_permissions(user)


def _matches_rule(project: Project, user: User) -> bool:
    return matching_users(project, read_rules(project)).filter(pk=user.pk).exists()


def _check_can_move(user: User) -> None:
    if ties := blocking_resources(user):
        raise Conflict(
            _("{name} still has something in the domain “{domain}”: {what}.").format(
                name=user.email, domain=user.domain.name, what=ties
            ),
            hint=_("Sessions must have ended, folders be handed over and memberships be removed first."),
            fields={"domain": [_("The person is still tied to the old one.")]},
        )


def _save_user(user: User, update_fields: Sequence[str] | None = None) -> None:
    """Save the user. Raises InvalidInput if a concurrent transaction took the address."""
    try:
        with transaction.atomic():
            user.save(update_fields=update_fields)
    except IntegrityError:
        validate_model(user)  # now sees the row of the other transaction
        raise


def _set_password(user: User, password: str | None) -> None:
    try:
        if password is not None:
            validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields={"password": error.messages}) from error
    user.set_password(password)


def _role_refusal(role: Role) -> PermissionDenied:
    sentence = _("You may not give anybody the role “{role}”.").format(role=_(ROLE_TITLES[role]))
    return PermissionDenied.at("role", sentence, hint=_("Nobody gives a role above their own."))


def creation_refusal(actor_scope: ActorScope, role: Role, domain: Domain) -> PermissionDenied:
    """Return the error that explains why the actor may not create such an account."""
    roles = authorization.assignable_roles(actor_scope)
    if roles and role not in roles:
        return _role_refusal(role)
    return permission_refusal(_("You may not add people to the domain “{name}”."), domain.name)


def _is_in_use(user: User) -> bool:
    """Return true if the user has used the account: a password is set, or a sign-in by a provider
    or directory took place.
    """
    return user.has_usable_password() or user.last_login is not None


@transaction.atomic
def create_sign_in_link(*, actor: Actor, user: User) -> str:
    """Create a one-time sign-in link valid for a day and return its code. For an unused account
    actors who may edit it suffice; for other accounts only superadmins, because the link grants
    full access.
    """
    if _is_in_use(user):
        require_superadmin(actor)
    access_user(actor, user.pk, Action.EDIT)
    code = token_secrets.new_secret()
    SignInLink.objects.filter(expires_at__lt=clock.now()).delete()
    SignInLink.objects.create(
        user=user, code_hash=token_secrets.hash_secret(code), expires_at=clock.now() + SIGN_IN_LINK_LIFETIME
    )
    audit_log.record(actor=actor, action="accounts.create_sign_in_link", target=user)
    return code


@transaction.atomic
def redeem_sign_in_link(*, actor: Actor, code: str) -> User:
    """Return the user of a valid link and delete it under lock. Raises NotFound."""
    links = SignInLink.objects.filter(code_hash=token_secrets.hash_secret(code), expires_at__gt=clock.now())
    link = links.select_for_update(of=("self",)).select_related("user__domain").first()
    if link is None or not link.user.is_active or not link.user.domain.is_active:
        raise NotFound(
            _("This sign-in link was used already or is too old."),
            hint=_("Start Berth again for a fresh one, or sign in with e-mail and password."),
        )
    delete_sign_in_links(link.user)
    audit_log.record(actor=actor, action="accounts.redeem_sign_in_link", target=link.user)
    return link.user


def delete_sign_in_links(user: User) -> None:
    """Delete all sign-in links of a user."""
    SignInLink.objects.filter(user=user).delete()


def grant_domain_permissions(user: User) -> None:
    """Replace the user's object permissions on domains by those of the role."""
    _grant(user, Domain, {user.domain_id: DOMAIN_PERMISSIONS[Role(user.role)]})


def grant_project_permissions(user: User) -> None:
    """Replace the user's object permissions on projects by those of the memberships."""
    roles = user.memberships.values_list("project_id", "role")
    _grant(user, Project, {pk: PROJECT_PERMISSIONS[ProjectRole(role)] for pk, role in roles})


def _grant(user: User, model: type[Domain | Project], wanted: Mapping[int, Sequence[str]]) -> None:
    """Replace the user's object permissions on `model`. `wanted` is {object id: permission names}.
    3 queries, or 1 if empty.
    """
    kind = ContentType.objects.get_for_model(model)
    UserObjectPermission.objects.filter(user=user, content_type=kind).delete()
    names = {name for each in wanted.values() for name in each}
    if not names:
        return
    known = {row.codename: row for row in Permission.objects.filter(content_type=kind, codename__in=names)}
    rows = (
        UserObjectPermission(user=user, content_type=kind, object_pk=str(pk), permission=known[name])
        for pk, each in wanted.items()
        for name in each
    )
    UserObjectPermission.objects.bulk_create(rows, ignore_conflicts=True)
