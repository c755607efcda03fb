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
from accounts.locks import lock_people
from accounts.models import Domain, Membership, Project, ResourcePolicy, User
from accounts.policies.service import demand_fits, lock_policies
from accounts.selectors import access_project, standing_of
from accounts.tenancy.service import grant_domain_permissions, refused_person
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput
from common.messaging.dispatch import TaskName, enqueue_on_commit


@dataclass(frozen=True, slots=True)
class Newcomer:
    """An account to create, without a password: projects of its domain and a policy, by default
    that of new users.
    """

    email: str
    name: str
    role: Role
    domain: Domain
    projects: tuple[Project, ...] = ()
    policy: ResourcePolicy | None = None


@transaction.atomic
def create_users(*, actor: Actor, wanted: Sequence[Newcomer]) -> list[User]:
    """Create all users, in order, or none. Raises InvalidInput, PermissionDenied, NotFound, and
    IntegrityError for a taken address.
    """
    if not wanted:
        return []
    lock_people(actor)
    _demand_may_make(actor, wanted)
    usual = default_policy()
    people = [_account_of(each, usual) for each in wanted]
    lock_policies([each.policy for each in wanted if each.policy is not None])
    limited = [
        person for person, each in zip(people, wanted, strict=True) if each.policy not in (None, usual)
    ]
    for person in limited:
        demand_fits(actor, person, usual, person.policy)

    User.objects.bulk_create(people)
    for person in people:
        if person.role != Role.USER:
            grant_domain_permissions(person)
    _join(people, wanted)
    made = ((person, {"role": person.role}) for person in people)
    audit_log.record_many(actor=actor, action="accounts.create_user", done=made)
    limits = (
        (each, {"policy": [usual and usual.name, each.policy and each.policy.name]}) for each in limited
    )
    audit_log.record_many(actor=actor, action="accounts.assign_policy", done=limits)
    joined = (
        (project, {"user": each.email, "role": ProjectRole.MEMBER.value})
        for each in wanted
        for project in each.projects
    )
    audit_log.record_many(actor=actor, action="accounts.add_member", done=joined)
    enqueue_on_commit(TaskName.FOLLOW_RULES)
    return people


def _demand_may_make(actor: Actor, wanted: Collection[Newcomer]) -> None:
    standing = standing_of(actor)
    for role, domain in {(each.role, each.domain) for each in wanted}:
        allowed = authorization.on_person(standing, user_id=0, role=role, domain_id=domain.pk)
        if not {Action.CREATE, Action.LIMIT} <= allowed:
            raise refused_person(standing, role, domain)
    for project_id in {project.pk for each in wanted for project in each.projects}:
        access_project(actor, project_id, Action.MANAGE_MEMBERS)


def _account_of(newcomer: Newcomer, usual: ResourcePolicy | None) -> User:
    user = User(
        email=newcomer.email.lower(),
        name=newcomer.name,
        domain=newcomer.domain,
        role=newcomer.role.value,
        policy=newcomer.policy or usual,
    )
    user.set_unusable_password()
    try:
        user.clean_fields(exclude=["password", "domain", "policy"])
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error
    return user


def _join(people: Sequence[User], wanted: Sequence[Newcomer]) -> None:
    """Add the users to their projects as members, with the object permissions of that role."""
    pairs = [
        (person, project) for person, each in zip(people, wanted, strict=True) for project in each.projects
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
