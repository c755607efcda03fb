"""Templates of sessions: who finds them, who writes them, and a session from one."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.authority import Action, on_policy, on_project
from accounts.models import Domain, Project
from accounts.selectors import (
    domain_named,
    known_projects,
    standing_of,
    usable_projects,
    visible_domains,
    visible_projects,
)
from common import audit, clock
from common.actors import Actor
from common.database import constraint_of
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from common.texts import quoted
from images.selectors import newest_image, visible_images
from sessions_app.models import ComputeSession, SessionTemplate
from sessions_app.requests import parse_request
from sessions_app.services import enqueue_session, suggest_name
from sessions_app.template_rules import (
    MOST_OF_ONE_PLACE,
    Sharing,
    check_description,
    check_template_name,
    kept_choices,
    stem_of_template,
)

Place = Mapping[str, Any]
"""Sharing, and owner, project and domain, of which one is named at most."""


def visible_templates(actor: Actor) -> QuerySet[SessionTemplate]:
    """One's own; those of projects and domains that one sees; those of everybody."""
    seen = (
        Q(owner_id=actor.user_id or 0)
        | Q(project__in=visible_projects(actor))
        | Q(domain__in=visible_domains(actor))
        | Q(sharing=Sharing.EVERYBODY)
    )
    return SessionTemplate.objects.filter(seen).select_related("project", "domain")


def access_template(actor: Actor, template_id: int) -> SessionTemplate:
    """Raises NotFound."""
    found = visible_templates(actor).filter(pk=template_id).first()
    if found is None:
        raise NotFound(_("There is no such template among those that you may see."))
    return found


def may_write(actor: Actor, templates: list[SessionTemplate]) -> set[int]:
    """Ids of those of these that the actor may change. One query."""
    if actor.behind_id is not None:
        return set()
    standing = standing_of(actor)
    return {each.pk for each in templates if _writes(standing, actor, each)}


def shown_body(actor: Actor, template: SessionTemplate) -> dict[str, Any]:
    """Its body; without variables for whoever looks at the portal as somebody else: secrets may stand there."""
    hidden = set() if actor.behind_id is None else {"environment"}
    return {name: value for name, value in template.body.items() if name not in hidden}


def writable_places(actor: Actor) -> tuple[list[Project], list[Domain], bool]:
    """Projects and domains whose templates the actor writes, and whether those of everybody too."""
    standing = standing_of(actor)
    projects = [
        project
        for project in known_projects(actor).filter(is_active=True)
        if Action.MANAGE_MEMBERS in on_project(standing, project_id=project.pk, domain_id=project.domain_id)
    ]
    domains = [
        domain
        for domain in visible_domains(actor).filter(is_active=True)
        if Action.EDIT in on_policy(standing, domain.pk)
    ]
    return projects, domains, Action.EDIT in on_policy(standing, None)


def _writes(standing: Any, actor: Actor, template: SessionTemplate) -> bool:
    match template.sharing:
        case Sharing.OWN:
            return template.owner_id == actor.user_id
        case Sharing.PROJECT:
            project = template.project
            return project is not None and Action.MANAGE_MEMBERS in on_project(
                standing, project_id=project.pk, domain_id=project.domain_id
            )
        case Sharing.DOMAIN:
            return Action.EDIT in on_policy(standing, template.domain_id)
        case _:
            return Action.EDIT in on_policy(standing, None)


@transaction.atomic
def create_template(
    *, actor: Actor, name: str, sharing: str, body: object, description: str = "", place: str = ""
) -> tuple[SessionTemplate, list[str]]:
    """`place` names the project, as “domain/project” where several domains have one of that name, or the domain; without one it is the
    project of the body, or the own domain. Also the names of variables that were left out. Raises InvalidInput, NotFound, PermissionDenied, Conflict, LimitExceeded."""
    checked = _checked(name=name, description=description)
    kept, left_out = kept_choices(body)
    if sharing == Sharing.PROJECT:
        place = place or str(kept.get("project", ""))
    template = SessionTemplate(**checked, body=kept, **_place_of(actor, sharing, place))
    _demand_writes(actor, template)
    if template.sharing == Sharing.PROJECT and template.project is not None:
        template.body["project"] = template.project.name
    siblings = SessionTemplate.objects.filter(
        sharing=template.sharing,
        owner=template.owner_id,
        project=template.project_id,
        domain=template.domain_id,
    )
    if siblings.count() >= MOST_OF_ONE_PLACE:
        sentence = _("There are {count} templates already, as many as there may be.")
        raise LimitExceeded(sentence.format(count=MOST_OF_ONE_PLACE), hint=_("Delete one first."))

    _keep(actor, template)
    audit.record(
        actor=actor,
        action="sessions.create_template",
        target=template,
        changes={"name": template.name, "sharing": template.sharing},
    )
    return template, left_out


@transaction.atomic
def change_template(
    *, actor: Actor, template_id: int, changes: Mapping[str, Any]
) -> tuple[SessionTemplate, list[str]]:
    """`changes` are of name, description and body. Raises NotFound, PermissionDenied, InvalidInput, Conflict."""
    access_template(actor, template_id)
    template = SessionTemplate.objects.select_for_update(of=("self",)).get(pk=template_id)
    _demand_writes(actor, template)
    left_out: list[str] = []
    before = {"name": template.name, "description": template.description}
    texts = _checked(**{name: changes[name] for name in ("name", "description") if name in changes})
    for name, text in texts.items():
        setattr(template, name, text)
    if "body" in changes:
        template.body, left_out = kept_choices(changes["body"])
        if template.project is not None:
            template.body["project"] = template.project.name

    _keep(actor, template)
    told = audit.changed(before, texts) | ({"body": "***"} if "body" in changes else {})
    audit.record(actor=actor, action="sessions.change_template", target=template, changes=told)
    return template, left_out


@transaction.atomic
def delete_template(*, actor: Actor, template_id: int) -> None:
    """Sessions that were started from it stay. Raises NotFound, PermissionDenied."""
    template = access_template(actor, template_id)
    _demand_writes(actor, template)
    audit.record(actor=actor, action="sessions.delete_template", target=template)
    template.delete()


def start_from_template(
    *, actor: Actor, template: SessionTemplate, name: str = "", project: str = ""
) -> ComputeSession:
    """A session as the template says, with all that is asked of one: rights, images, policies, limits of now, and of the actor. Raises
    what enqueueing raises."""
    raw = body_of(actor, template, project=project)
    raw["name"] = name or suggest_name(actor, stem_of_template(template.name))
    return enqueue_session(actor=actor, request=parse_request(raw))


def body_of(actor: Actor, template: SessionTemplate, *, project: str = "") -> dict[str, Any]:
    """The body of a request: in its own project, or in the first of the actor's where it names none of theirs; with the newest
    build of its image where that was replaced."""
    raw = dict(template.body)
    own = list(usable_projects(actor).order_by("name").values_list("name", flat=True))
    named = project or raw.get("project") or ""
    is_bound = bool(project) or template.sharing == Sharing.PROJECT or named in own
    raw["project"] = named if is_bound or not own else own[0]
    is_there = visible_images(actor).filter(reference=raw["image"]).exists()
    if not is_there and (successor := newest_image(actor, str(raw["image"]))):
        raw["image"] = successor.reference
    return raw


def _place_of(actor: Actor, sharing: str, name: str) -> dict[str, Any]:
    if sharing == Sharing.OWN:
        return {"sharing": sharing, "owner_id": actor.user_id}
    if sharing == Sharing.PROJECT:
        return {"sharing": sharing, "project": _project_named(actor, name)}
    if sharing == Sharing.DOMAIN:
        try:
            return {"sharing": sharing, "domain": domain_named(actor, name)}
        except NotFound as error:
            raise NotFound(error.message, fields={"place": [error.message]}) from error
    if sharing == Sharing.EVERYBODY:
        return {"sharing": sharing}
    known = ", ".join(each.value for each in Sharing)
    sentence = _("{value} is no way to share. Use one of {known}.").format(value=quoted(sharing), known=known)
    raise InvalidInput(sentence, fields={"sharing": [sentence]})


def _project_named(actor: Actor, text: str) -> Project:
    """Raises NotFound, and Conflict where several domains have one of that name."""
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


def _demand_writes(actor: Actor, template: SessionTemplate) -> None:
    if not _writes(standing_of(actor), actor, template):
        raise PermissionDenied(
            _("You may not write templates there."),
            hint=_("Keep it for yourself, or ask an administrator of the project or domain."),
        )


def _checked(**values: str) -> dict[str, str]:
    checks = {"name": check_template_name, "description": check_description}
    kept, problems = {}, {}
    for name, value in values.items():
        try:
            kept[name] = checks[name](value)
        except ValueError as error:
            problems[name] = [str(error)]
    if problems:
        raise InvalidInput(next(iter(problems.values()))[0], fields=problems)
    return kept


def _keep(actor: Actor, template: SessionTemplate) -> None:
    template.changed_by, template.changed_at = actor.label, clock.now()
    try:
        with transaction.atomic():
            template.save()
    except IntegrityError as error:
        if constraint_of(error) != "template_name_in_place":
            raise
        raise Conflict(
            _("There is a template called “{name}” there already.").format(name=template.name),
            hint=_("Choose another name, or change that one."),
            fields={"name": [_("Used by a template there already.")]},
        ) from error
