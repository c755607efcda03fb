"""Permission tables: actions each role may take on domains, projects, users and policies. Pure.

Nobody acts on a user above their own role, gives a role above their own, or closes their own
account; so a delegated domain or project never grants more than that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from accounts.core.roles import MONITORS, Role


class Action(StrEnum):
    VIEW = "view"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"  # to another domain
    CLOSE = "close"  # close or reopen an account, project or domain
    PURGE = "purge"
    VIEW_MEMBERS = "view_members"
    MANAGE_MEMBERS = "manage_members"
    LIMIT = "limit"  # assign a resource policy
    VIEW_AS = "view_as"  # read-only impersonation (accounts.logins.impersonation)


class Relation(StrEnum):
    """Relation of an actor to a domain, project or user."""

    SUPERADMIN = "superadmin"
    MONITOR = "monitor"
    DOMAIN_ADMIN = "domain_admin"  # of the domain itself, or of the domain that the object belongs to
    DOMAIN_MONITOR = "domain_monitor"  # like DOMAIN_ADMIN, read-only
    PROJECT_ADMIN = "project_admin"  # of the project, or of a project of the user
    BELONGS = "belongs"  # member of the domain or project, or the user oneself


Actions = frozenset[Action]
ActionTable = Mapping[Relation, Actions]
NOTHING: Actions = frozenset()

_LOOK = frozenset({Action.VIEW})

ON_DOMAINS: ActionTable = {
    Relation.SUPERADMIN: frozenset(
        {Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE, Action.LIMIT}
    ),
    Relation.MONITOR: _LOOK,
    Relation.DOMAIN_ADMIN: _LOOK,
    Relation.DOMAIN_MONITOR: _LOOK,
    Relation.BELONGS: _LOOK,
}
_LOOK_INTO_PROJECT = _LOOK | {Action.VIEW_MEMBERS}
_WHOLE_PROJECT = _LOOK_INTO_PROJECT | {
    Action.CREATE,
    Action.EDIT,
    Action.CLOSE,
    Action.PURGE,
    Action.MANAGE_MEMBERS,
    Action.LIMIT,
}
ON_PROJECTS: ActionTable = {
    Relation.SUPERADMIN: _WHOLE_PROJECT,
    Relation.MONITOR: _LOOK_INTO_PROJECT,
    Relation.DOMAIN_ADMIN: _WHOLE_PROJECT,
    Relation.DOMAIN_MONITOR: _LOOK_INTO_PROJECT,
    Relation.PROJECT_ADMIN: _LOOK_INTO_PROJECT | {Action.MANAGE_MEMBERS},
    Relation.BELONGS: _LOOK,
}
_WHOLE_PERSON = frozenset(
    {Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE, Action.LIMIT, Action.VIEW_AS}
)
ON_PEOPLE: ActionTable = {
    Relation.SUPERADMIN: _WHOLE_PERSON | {Action.MOVE},
    Relation.MONITOR: _LOOK,
    Relation.DOMAIN_ADMIN: _WHOLE_PERSON,
    Relation.DOMAIN_MONITOR: _LOOK,
    Relation.PROJECT_ADMIN: _LOOK,
    Relation.BELONGS: _LOOK,
}
_WHOLE_POLICY = frozenset({Action.VIEW, Action.CREATE, Action.EDIT, Action.PURGE})
ON_POLICIES: ActionTable = {
    Relation.SUPERADMIN: _WHOLE_POLICY,
    Relation.MONITOR: _LOOK,
    Relation.DOMAIN_ADMIN: _WHOLE_POLICY,
    Relation.DOMAIN_MONITOR: _LOOK,
    Relation.BELONGS: NOTHING,
}
NOT_ON_ONESELF: Actions = frozenset({Action.CLOSE, Action.PURGE, Action.MOVE, Action.VIEW_AS})
# Impersonation is limited to roles that see at most one domain and are not read-only themselves.
NOT_LOOKED_AS = (Role.SUPERADMIN, *MONITORS)

# Roles that each role may assign: none that reaches or sees further than itself.
GIVES: Mapping[Role, tuple[Role, ...]] = {
    Role.USER: (),
    Role.DOMAIN_MONITOR: (),
    Role.DOMAIN_ADMIN: (Role.USER, Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN),
    Role.MONITOR: (),
    Role.SUPERADMIN: tuple(Role),
}
_EVERYWHERE = {Role.SUPERADMIN: Relation.SUPERADMIN, Role.MONITOR: Relation.MONITOR}
_AT_HOME = {
    Role.USER: Relation.BELONGS,
    Role.DOMAIN_MONITOR: Relation.DOMAIN_MONITOR,
    Role.DOMAIN_ADMIN: Relation.DOMAIN_ADMIN,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Current role, domain and projects of an actor. `role` is None without an active account. The
    system has the role superadmin and user_id 0. Only projects of the own domain are listed.
    """

    user_id: int = 0
    role: Role | None = None
    domain_id: int = 0
    project_ids: frozenset[int] = frozenset()
    administered_ids: frozenset[int] = frozenset()


def roles_to_give(standing: Standing) -> tuple[Role, ...]:
    """Return the roles that the actor may assign; empty for most users."""
    return () if standing.role is None else GIVES[standing.role]


def on_domain(standing: Standing, domain_id: int) -> Actions:
    return _allowed(ON_DOMAINS, _of_domain(standing, domain_id))


def on_project(standing: Standing, *, project_id: int, domain_id: int) -> Actions:
    """Return the allowed actions on a project. `project_id` is 0 for a project to be created."""
    relations = _of_domain(standing, domain_id) - {Relation.BELONGS}
    if project_id in _administered_by(standing):
        relations |= {Relation.PROJECT_ADMIN}
    if project_id in standing.project_ids:
        relations |= {Relation.BELONGS}
    return _allowed(ON_PROJECTS, relations)


def on_person(
    standing: Standing, *, user_id: int, role: Role, domain_id: int, project_ids: Collection[int] = ()
) -> Actions:
    """Return the allowed actions on a user. For an account to be created `user_id` is 0 and `role`
    the intended role.
    """
    relations = _of_domain(standing, domain_id) - {Relation.BELONGS}
    if not _administered_by(standing).isdisjoint(project_ids):
        relations |= {Relation.PROJECT_ADMIN}
    is_oneself = user_id == standing.user_id != 0 and standing.role is not None
    if is_oneself:
        relations |= {Relation.BELONGS}
    allowed = _allowed(ON_PEOPLE, relations)
    if is_oneself:
        is_above_limits = standing.role is Role.SUPERADMIN
        return allowed - NOT_ON_ONESELF - (NOTHING if is_above_limits else frozenset({Action.LIMIT}))
    if role not in roles_to_give(standing):
        return allowed & {Action.VIEW}
    return allowed - {Action.VIEW_AS} if role in NOT_LOOKED_AS else allowed


def on_policy(standing: Standing, domain_id: int | None) -> Actions:
    """Return the allowed actions on a policy of a domain, or of the whole installation if
    `domain_id` is None.
    """
    return _allowed(ON_POLICIES, _of_domain(standing, domain_id or 0))


def _of_domain(standing: Standing, domain_id: int) -> set[Relation]:
    if standing.role is None:
        return set()
    if standing.role in _EVERYWHERE:
        return {_EVERYWHERE[standing.role]}
    return {_AT_HOME[standing.role]} if domain_id == standing.domain_id else set()


def _administered_by(standing: Standing) -> frozenset[int]:
    """Return the administered project ids; empty for monitors, whose project admin role is
    suspended.
    """
    return frozenset() if standing.role in MONITORS else standing.administered_ids


def _allowed(table: ActionTable, relations: Iterable[Relation]) -> Actions:
    return NOTHING.union(*(table[relation] for relation in relations))
