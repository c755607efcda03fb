"""Who may do what to domains, projects, people and resource policies: declared tables, and what follows from them. Pure.

Nobody acts on somebody above themselves, gives a role above their own, or ends their own account; so whoever is
delegated a domain or a project can never reach further than that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from accounts.core.roles import MONITORS, Role


class Action(StrEnum):
    VIEW = "view"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"  # into another domain
    CLOSE = "close"  # an account, a project or a domain; and open it again
    PURGE = "purge"
    VIEW_MEMBERS = "view_members"
    MANAGE_MEMBERS = "manage_members"
    LIMIT = "limit"  # by a resource policy
    VIEW_AS = "view_as"  # look at the portal as that person, read-only (accounts.logins.impersonation)


class Relation(StrEnum):
    """What somebody is to a domain, a project or a person."""

    SUPERADMIN = "superadmin"
    MONITOR = "monitor"
    DOMAIN_ADMIN = "domain_admin"  # of the domain that it is or belongs to
    DOMAIN_MONITOR = "domain_monitor"  # the same
    PROJECT_ADMIN = "project_admin"  # of the project, or of one that the person is in
    BELONGS = "belongs"  # is in the domain or the project, or is that person


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
# Nobody looks as somebody who sees more than a domain: superadmins and monitors, nor as who only looks themselves.
NOT_LOOKED_AS = (Role.SUPERADMIN, *MONITORS)

# Which roles each role gives: none that reaches or sees further than itself.
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
    """What somebody is at this moment. `role` is None for whoever has no open account; Berth itself stands as a
    superadmin who is nobody. Projects are those of the own domain alone."""

    user_id: int = 0
    role: Role | None = None
    domain_id: int = 0
    project_ids: frozenset[int] = frozenset()
    administered_ids: frozenset[int] = frozenset()


def roles_to_give(standing: Standing) -> tuple[Role, ...]:
    """None for people who give none at all."""
    return () if standing.role is None else GIVES[standing.role]


def on_domain(standing: Standing, domain_id: int) -> Actions:
    return _allowed(ON_DOMAINS, _of_domain(standing, domain_id))


def on_project(standing: Standing, *, project_id: int, domain_id: int) -> Actions:
    """For a project that is yet to be made, its id is 0."""
    relations = _of_domain(standing, domain_id) - {Relation.BELONGS}
    if project_id in _administered_by(standing):
        relations |= {Relation.PROJECT_ADMIN}
    if project_id in standing.project_ids:
        relations |= {Relation.BELONGS}
    return _allowed(ON_PROJECTS, relations)


def on_person(
    standing: Standing, *, user_id: int, role: Role, domain_id: int, project_ids: Collection[int] = ()
) -> Actions:
    """For an account that is yet to be made, its id is 0 and its role the one that it shall have."""
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
    """For a policy of a domain, or with None of the whole installation."""
    return _allowed(ON_POLICIES, _of_domain(standing, domain_id or 0))


def _of_domain(standing: Standing, domain_id: int) -> set[Relation]:
    if standing.role is None:
        return set()
    if standing.role in _EVERYWHERE:
        return {_EVERYWHERE[standing.role]}
    return {_AT_HOME[standing.role]} if domain_id == standing.domain_id else set()


def _administered_by(standing: Standing) -> frozenset[int]:
    """A monitor changes nothing of others: being admin of a project sleeps meanwhile."""
    return frozenset() if standing.role in MONITORS else standing.administered_ids


def _allowed(table: ActionTable, relations: Iterable[Relation]) -> Actions:
    return NOTHING.union(*(table[relation] for relation in relations))
