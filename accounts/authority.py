"""Who may do what to domains, projects and people: declared tables, and what follows from them. Pure.

Nobody acts on somebody above themselves, gives a role above their own, or ends their own account; so whoever is
delegated a domain or a project can never reach further than that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from accounts.roles import Role


class Action(StrEnum):
    VIEW = "view"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"  # into another domain
    CLOSE = "close"  # an account, a project or a domain; and open it again
    PURGE = "purge"
    MANAGE_MEMBERS = "manage_members"


class Relation(StrEnum):
    """What somebody is to a domain, a project or a person."""

    SUPERADMIN = "superadmin"
    DOMAIN_ADMIN = "domain_admin"  # of the domain that it is or belongs to
    PROJECT_ADMIN = "project_admin"  # of the project, or of one that the person is in
    BELONGS = "belongs"  # is in the domain or the project, or is that person


Actions = frozenset[Action]
ActionTable = Mapping[Relation, Actions]
NOTHING: Actions = frozenset()

ON_DOMAINS: ActionTable = {
    Relation.SUPERADMIN: frozenset({Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE}),
    Relation.DOMAIN_ADMIN: frozenset({Action.VIEW}),
    Relation.BELONGS: frozenset({Action.VIEW}),
}
_WHOLE_PROJECT = frozenset(
    {Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE, Action.MANAGE_MEMBERS}
)
ON_PROJECTS: ActionTable = {
    Relation.SUPERADMIN: _WHOLE_PROJECT,
    Relation.DOMAIN_ADMIN: _WHOLE_PROJECT,
    Relation.PROJECT_ADMIN: frozenset({Action.VIEW, Action.MANAGE_MEMBERS}),
    Relation.BELONGS: frozenset({Action.VIEW}),
}
_WHOLE_PERSON = frozenset({Action.VIEW, Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE})
ON_PEOPLE: ActionTable = {
    Relation.SUPERADMIN: _WHOLE_PERSON | {Action.MOVE},
    Relation.DOMAIN_ADMIN: _WHOLE_PERSON,
    Relation.PROJECT_ADMIN: frozenset({Action.VIEW}),
    Relation.BELONGS: frozenset({Action.VIEW}),
}
NOT_ON_ONESELF: Actions = frozenset({Action.CLOSE, Action.PURGE, Action.MOVE})

# Lowest first.
RANKS = (Role.USER, Role.DOMAIN_ADMIN, Role.SUPERADMIN)


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
    """Those that are not above the own; none for people who give none at all."""
    if standing.role in (None, Role.USER):
        return ()
    return RANKS[: RANKS.index(standing.role) + 1]


def on_domain(standing: Standing, domain_id: int) -> Actions:
    return _allowed(ON_DOMAINS, _of_domain(standing, domain_id))


def on_project(standing: Standing, *, project_id: int, domain_id: int) -> Actions:
    """For a project that is yet to be made, its id is 0."""
    relations = _of_domain(standing, domain_id) - {Relation.BELONGS}
    if project_id in standing.administered_ids:
        relations |= {Relation.PROJECT_ADMIN}
    if project_id in standing.project_ids:
        relations |= {Relation.BELONGS}
    return _allowed(ON_PROJECTS, relations)


def on_person(
    standing: Standing, *, user_id: int, role: Role, domain_id: int, project_ids: Collection[int] = ()
) -> Actions:
    """For an account that is yet to be made, its id is 0 and its role the one that it shall have."""
    relations = _of_domain(standing, domain_id) - {Relation.BELONGS}
    if not standing.administered_ids.isdisjoint(project_ids):
        relations |= {Relation.PROJECT_ADMIN}
    is_oneself = user_id == standing.user_id != 0 and standing.role is not None
    if is_oneself:
        relations |= {Relation.BELONGS}
    allowed = _allowed(ON_PEOPLE, relations)
    if is_oneself:
        return allowed - NOT_ON_ONESELF
    return allowed if role in roles_to_give(standing) else allowed & {Action.VIEW}


def _of_domain(standing: Standing, domain_id: int) -> set[Relation]:
    if standing.role is None:
        return set()
    if standing.role is Role.SUPERADMIN:
        return {Relation.SUPERADMIN}
    if domain_id != standing.domain_id:
        return set()
    return {Relation.DOMAIN_ADMIN if standing.role is Role.DOMAIN_ADMIN else Relation.BELONGS}


def _allowed(table: ActionTable, relations: Iterable[Relation]) -> Actions:
    return NOTHING.union(*(table[relation] for relation in relations))
