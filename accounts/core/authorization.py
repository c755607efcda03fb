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
NO_ACTIONS: Actions = frozenset()

_VIEW = frozenset({Action.VIEW})

DOMAIN_ACTIONS: ActionTable = {
    Relation.SUPERADMIN: frozenset(
        {Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE, Action.LIMIT}
    ),
    Relation.MONITOR: _VIEW,
    Relation.DOMAIN_ADMIN: _VIEW,
    Relation.DOMAIN_MONITOR: _VIEW,
    Relation.BELONGS: _VIEW,
}
_VIEW_PROJECT = _VIEW | {Action.VIEW_MEMBERS}
_MANAGE_PROJECT = _VIEW_PROJECT | {
    Action.CREATE,
    Action.EDIT,
    Action.CLOSE,
    Action.PURGE,
    Action.MANAGE_MEMBERS,
    Action.LIMIT,
}
PROJECT_ACTIONS: ActionTable = {
    Relation.SUPERADMIN: _MANAGE_PROJECT,
    Relation.MONITOR: _VIEW_PROJECT,
    Relation.DOMAIN_ADMIN: _MANAGE_PROJECT,
    Relation.DOMAIN_MONITOR: _VIEW_PROJECT,
    Relation.PROJECT_ADMIN: _VIEW_PROJECT | {Action.MANAGE_MEMBERS},
    Relation.BELONGS: _VIEW,
}
_MANAGE_USER = frozenset(
    {Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE, Action.LIMIT, Action.VIEW_AS}
)
USER_ACTIONS: ActionTable = {
    Relation.SUPERADMIN: _MANAGE_USER | {Action.MOVE},
    Relation.MONITOR: _VIEW,
    Relation.DOMAIN_ADMIN: _MANAGE_USER,
    Relation.DOMAIN_MONITOR: _VIEW,
    Relation.PROJECT_ADMIN: _VIEW,
    Relation.BELONGS: _VIEW,
}
_MANAGE_POLICY = frozenset({Action.VIEW, Action.CREATE, Action.EDIT, Action.PURGE})
POLICY_ACTIONS: ActionTable = {
    Relation.SUPERADMIN: _MANAGE_POLICY,
    Relation.MONITOR: _VIEW,
    Relation.DOMAIN_ADMIN: _MANAGE_POLICY,
    Relation.DOMAIN_MONITOR: _VIEW,
    Relation.BELONGS: NO_ACTIONS,
}
FORBIDDEN_ON_SELF: Actions = frozenset({Action.CLOSE, Action.PURGE, Action.MOVE, Action.VIEW_AS})
# Impersonation is limited to roles that see at most one domain and are not read-only themselves.
NEVER_IMPERSONATED = (Role.SUPERADMIN, *MONITORS)

# Roles that each role may assign: none that reaches or sees further than itself.
ASSIGNABLE_ROLES: Mapping[Role, tuple[Role, ...]] = {
    Role.USER: (),
    Role.DOMAIN_MONITOR: (),
    Role.DOMAIN_ADMIN: (Role.USER, Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN),
    Role.MONITOR: (),
    Role.SUPERADMIN: tuple(Role),
}
_GLOBAL_RELATIONS = {Role.SUPERADMIN: Relation.SUPERADMIN, Role.MONITOR: Relation.MONITOR}
_DOMAIN_RELATIONS = {
    Role.USER: Relation.BELONGS,
    Role.DOMAIN_MONITOR: Relation.DOMAIN_MONITOR,
    Role.DOMAIN_ADMIN: Relation.DOMAIN_ADMIN,
}


@dataclass(frozen=True, slots=True)
class ActorScope:
    """Current role, domain and projects of an actor. `role` is None without an active account. The
    system has the role superadmin and user_id 0. Only projects of the own domain are listed.
    """

    user_id: int = 0
    role: Role | None = None
    domain_id: int = 0
    project_ids: frozenset[int] = frozenset()
    administered_ids: frozenset[int] = frozenset()


def assignable_roles(actor_scope: ActorScope) -> tuple[Role, ...]:
    """Return the roles that the actor may assign; empty for most users."""
    return () if actor_scope.role is None else ASSIGNABLE_ROLES[actor_scope.role]


def domain_actions(actor_scope: ActorScope, domain_id: int) -> Actions:
    return _allowed_actions(DOMAIN_ACTIONS, _domain_relations(actor_scope, domain_id))


def project_actions(actor_scope: ActorScope, *, project_id: int, domain_id: int) -> Actions:
    """Return the allowed actions on a project. `project_id` is 0 for a project to be created."""
    relations = _domain_relations(actor_scope, domain_id) - {Relation.BELONGS}
    if project_id in _administered_ids(actor_scope):
        relations |= {Relation.PROJECT_ADMIN}
    if project_id in actor_scope.project_ids:
        relations |= {Relation.BELONGS}
    return _allowed_actions(PROJECT_ACTIONS, relations)


def user_actions(
    actor_scope: ActorScope, *, user_id: int, role: Role, domain_id: int, project_ids: Collection[int] = ()
) -> Actions:
    """Return the allowed actions on a user. For an account to be created `user_id` is 0 and `role`
    the intended role.
    """
    relations = _domain_relations(actor_scope, domain_id) - {Relation.BELONGS}
    if not _administered_ids(actor_scope).isdisjoint(project_ids):
        relations |= {Relation.PROJECT_ADMIN}
    is_oneself = user_id == actor_scope.user_id != 0 and actor_scope.role is not None
    if is_oneself:
        relations |= {Relation.BELONGS}
    allowed = _allowed_actions(USER_ACTIONS, relations)
    if is_oneself:
        is_above_limits = actor_scope.role is Role.SUPERADMIN
        return allowed - FORBIDDEN_ON_SELF - (NO_ACTIONS if is_above_limits else frozenset({Action.LIMIT}))
    if role not in assignable_roles(actor_scope):
        return allowed & {Action.VIEW}
    return allowed - {Action.VIEW_AS} if role in NEVER_IMPERSONATED else allowed


def policy_actions(actor_scope: ActorScope, domain_id: int | None) -> Actions:
    """Return the allowed actions on a policy of a domain; None means the whole installation."""
    return _allowed_actions(POLICY_ACTIONS, _domain_relations(actor_scope, domain_id or 0))


def _domain_relations(actor_scope: ActorScope, domain_id: int) -> set[Relation]:
    if actor_scope.role is None:
        return set()
    if actor_scope.role in _GLOBAL_RELATIONS:
        return {_GLOBAL_RELATIONS[actor_scope.role]}
    return {_DOMAIN_RELATIONS[actor_scope.role]} if domain_id == actor_scope.domain_id else set()


def _administered_ids(actor_scope: ActorScope) -> frozenset[int]:
    """Return the administered project ids; empty for monitors, whose project admin role is suspended."""
    return frozenset() if actor_scope.role in MONITORS else actor_scope.administered_ids


def _allowed_actions(table: ActionTable, relations: Iterable[Relation]) -> Actions:
    return NO_ACTIONS.union(*(table[relation] for relation in relations))
