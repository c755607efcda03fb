"""Creates many users at once: `create_user` and `add_member` in a constant number of queries."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import transaction
from guardian.models import UserObjectPermission

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.roles import PROJECT_PERMISSIONS, ProjectRole, Role
from accounts.limits import default_policy
from accounts.locks import lock_users
from accounts.models import Domain, Membership, Project, ResourcePolicy, User
from accounts.policies.service import check_assignable, lock_policies
from accounts.selectors import access_project, read_actor_scope
from accounts.tenancy.service import creation_refusal, grant_domain_permissions
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput
from common.messaging.dispatch import TaskName, enqueue_on_commit


@dataclass(frozen=True, slots=True)
class NewUser:
    """An account to create without a password. `policy` defaults to that of new users."""

    email: str
    name: str
    role: Role
    domain: Domain
    projects: tuple[Project, ...] = ()
    policy: ResourcePolicy | None = None


@transaction.atomic
def create_users(*, actor: Actor, new_users: Sequence[NewUser]) -> list[User]:
    """Create all users, in order, or none. Raises InvalidInput, PermissionDenied, NotFound, and
    IntegrityError for a taken address.
    """
    if not new_users:
        return []
    lock_users(actor)
    _require_may_create(actor, new_users)
    default = default_policy()
    people = [_build_user(new_user, default) for new_user in new_users]
    lock_policies([new_user.policy for new_user in new_users if new_user.policy is not None])
    limited = [
        person
        for person, new_user in zip(people, new_users, strict=True)
        if new_user.policy not in (None, default)
    ]
    for person in limited:
        check_assignable(actor, person, default, person.policy)

    User.objects.bulk_create(people)
    for person in people:
        if person.role != Role.USER:
            grant_domain_permissions(person)
    _add_memberships(people, new_users)
    made = ((person, {"role": person.role}) for person in people)
    audit_log.record_many(actor=actor, action="accounts.create_user", targets=made)
    limits = (
        (new_user, {"policy": [default and default.name, new_user.policy and new_user.policy.name]})
        for new_user in limited
    )
    audit_log.record_many(actor=actor, action="accounts.assign_policy", targets=limits)
    joined = (
        (project, {"user": new_user.email, "role": ProjectRole.MEMBER.value})
        for new_user in new_users
        for project in new_user.projects
    )
    audit_log.record_many(actor=actor, action="accounts.add_member", targets=joined)
    enqueue_on_commit(TaskName.FOLLOW_RULES)
    return people


def _require_may_create(actor: Actor, new_users: Collection[NewUser]) -> None:
    actor_scope = read_actor_scope(actor)
    for role, domain in {(new_user.role, new_user.domain) for new_user in new_users}:
        allowed = authorization.user_actions(actor_scope, user_id=0, role=role, domain_id=domain.pk)
        if not {Action.CREATE, Action.LIMIT} <= allowed:
            raise creation_refusal(actor_scope, role, domain)
    for project_id in {project.pk for new_user in new_users for project in new_user.projects}:
        access_project(actor, project_id, Action.MANAGE_MEMBERS)


def _build_user(new_user: NewUser, default: ResourcePolicy | None) -> User:
    user = User(
        email=new_user.email.lower(),
        name=new_user.name,
        domain=new_user.domain,
        role=new_user.role.value,
        policy=new_user.policy or default,
    )
    user.set_unusable_password()
    try:
        user.clean_fields(exclude=["password", "domain", "policy"])
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error
    return user


def _add_memberships(people: Sequence[User], new_users: Sequence[NewUser]) -> None:
    """Add the users to their projects as members, with the object permissions of that role."""
    pairs = [
        (person, project)
        for person, new_user in zip(people, new_users, strict=True)
        for project in new_user.projects
    ]
    Membership.objects.bulk_create(
        Membership(user=person, project=project, role=ProjectRole.MEMBER.value) for person, project in pairs
    )
    kind = ContentType.objects.get_for_model(Project)
    names = PROJECT_PERMISSIONS[ProjectRole.MEMBER]
    permissions = list(Permission.objects.filter(content_type=kind, codename__in=names)) if pairs else []
    UserObjectPermission.objects.bulk_create(
        UserObjectPermission(user=person, permission=permission, content_type=kind, object_pk=str(project.pk))
        for person, project in pairs
        for permission in permissions
    )
