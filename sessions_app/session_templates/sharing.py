"""Visibility and write access of shared templates and presets (own, project, domain, everybody)."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.core.authorization import Action, ActorScope, policy_actions, project_actions
from accounts.models import Domain, Project
from accounts.selectors import (
    find_domain,
    known_projects,
    read_actor_scope,
    visible_domains,
    visible_projects,
)
from common import clock
from common.actors import Actor
from common.db.connection import constraint_of
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from common.values.text import quoted
from sessions_app.core.template_rules import MAX_PER_SCOPE, Sharing
from sessions_app.models import ResourcePreset, SessionTemplate

SharedRow = SessionTemplate | ResourcePreset


def visible_to(actor: Actor) -> Q:
    """Return a filter for the rows visible to the actor: their own, those of visible projects and
    domains, and those shared with everybody.
    """
    return (
        Q(owner_id=actor.user_id or 0)
        | Q(project__in=visible_projects(actor))
        | Q(domain__in=visible_domains(actor))
        | Q(sharing=Sharing.EVERYBODY)
    )


def writable_ids(actor: Actor, rows: Iterable[SharedRow]) -> set[int]:
    """Return the ids of those rows that the actor may change. One query."""
    may_change = write_checker(actor)
    return {each.pk for each in rows if may_change(each)}


def write_checker(actor: Actor) -> Callable[[SharedRow], bool]:
    """Return a predicate: may the actor change this row? One query for any number of rows."""
    if actor.impersonator_id is not None:
        return lambda row: False
    scope = read_actor_scope(actor)
    return lambda row: _can_write(scope, actor, row)


def can_write(actor: Actor, row: SharedRow) -> bool:
    """Return True if the actor may change the row, or create it in its place. One query."""
    return _can_write(read_actor_scope(actor), actor, row)


def require_free_place(row: SharedRow, sentence: str) -> None:
    """Raise LimitExceeded with `sentence` if there are MAX_PER_SCOPE rows in the scope of this row."""
    siblings = type(row).objects.filter(
        sharing=row.sharing, owner=row.owner_id, project=row.project, domain=row.domain_id
    )
    if siblings.count() >= MAX_PER_SCOPE:
        raise LimitExceeded(sentence.format(count=MAX_PER_SCOPE), hint=_("Delete one first."))


def save_shared(actor: Actor, row: SharedRow, constraint: str, sentence: str, field_sentence: str) -> None:
    """Save the row. Raises Conflict with the sentences if its name violates the constraint."""
    row.changed_by, row.changed_at = actor.label, clock.now()
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if constraint_of(error) != constraint:
            raise
        hint = _("Choose another name, or change that one.")
        fields = {"name": [field_sentence]}
        raise Conflict(sentence.format(name=row.name), hint=hint, fields=fields) from error


def writable_scopes(actor: Actor) -> tuple[list[Project], list[Domain], bool]:
    """Return (projects, domains, everybody): where the actor may write shared rows."""
    scope = read_actor_scope(actor)
    projects = [
        project
        for project in known_projects(actor).filter(is_active=True)
        if Action.MANAGE_MEMBERS in project_actions(scope, project_id=project.pk, domain_id=project.domain_id)
    ]
    domains = [
        domain
        for domain in visible_domains(actor).filter(is_active=True)
        if Action.EDIT in policy_actions(scope, domain.pk)
    ]
    return projects, domains, Action.EDIT in policy_actions(scope, None)


def scope_columns(actor: Actor, sharing: str, name: str) -> dict[str, Any]:
    """Return the columns that place a row. `name` is the project, or “domain/project” if the
    project name is ambiguous, or the domain (default: the own domain). Raises NotFound, Conflict,
    InvalidInput.
    """
    if sharing == Sharing.OWN:
        return {"sharing": sharing, "owner_id": actor.user_id}
    if sharing == Sharing.PROJECT:
        return {"sharing": sharing, "project": _project_named(actor, name)}
    if sharing == Sharing.DOMAIN:
        try:
            return {"sharing": sharing, "domain": find_domain(actor, name)}
        except NotFound as error:
            raise NotFound(error.message, fields={"place": [error.message]}) from error
    if sharing == Sharing.EVERYBODY:
        return {"sharing": sharing}
    known = ", ".join(each.value for each in Sharing)
    sentence = _("{value} is no way to share. Use one of {known}.").format(value=quoted(sharing), known=known)
    raise InvalidInput(sentence, fields={"sharing": [sentence]})


def _project_named(actor: Actor, text: str) -> Project:
    """Return the project. Raises NotFound; Conflict if several domains have a project of that name."""
    domain, _slash, name = text.rpartition("/")
    projects = known_projects(actor).filter(name=name, is_active=True)
    found = list((projects.filter(domain__name=domain) if domain else projects)[:2])
    if not found:
        sentence = _("There is no project {name} among those that you may see.").format(name=quoted(text))
        raise NotFound(sentence, fields={"place": [sentence]})
    if len(found) > 1:
        sentence = _(
            "Several projects are called {name}: write the domain before it, like {example}."
        ).format(name=quoted(name, 64), example=f"{found[0].domain.name}/{name}")
        raise Conflict(sentence, fields={"place": [sentence]})
    return found[0]


def _can_write(scope: ActorScope, actor: Actor, row: SharedRow) -> bool:
    match row.sharing:
        case Sharing.OWN:
            return bool(row.owner_id == actor.user_id)
        case Sharing.PROJECT:
            project = row.project
            return project is not None and Action.MANAGE_MEMBERS in project_actions(
                scope, project_id=project.pk, domain_id=project.domain_id
            )
        case Sharing.DOMAIN:
            return Action.EDIT in policy_actions(scope, row.domain_id)
        case _:
            return Action.EDIT in policy_actions(scope, None)
