"""Session templates: visibility, create, change, delete, and starting a session from one."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.selectors import usable_projects
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, NotFound, PermissionDenied
from images.selectors import newest_image, visible_images
from sessions_app.admission.names import suggest_name
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.template_rules import (
    Sharing,
    check_description,
    check_template_name,
    template_body,
    template_name_stem,
)
from sessions_app.models import ComputeSession, SessionTemplate
from sessions_app.session_templates.sharing import (
    can_write,
    require_free_place,
    save_shared,
    scope_columns,
    visible_to,
)

_OF_ONE_PROJECT = (Sharing.OWN, Sharing.PROJECT)


def visible_templates(actor: Actor) -> QuerySet[SessionTemplate]:
    return SessionTemplate.objects.filter(visible_to(actor)).select_related("project", "domain")


def access_template(actor: Actor, template_id: int, *, locked: bool = False) -> SessionTemplate:
    """Return one visible template, with its row locked if `locked`. Raises NotFound."""
    rows = visible_templates(actor)
    found = (rows.select_for_update(of=("self",)) if locked else rows).filter(pk=template_id).first()
    if found is None:
        raise NotFound(_("There is no such template among those that you may see."))
    return found


def visible_body(actor: Actor, template: SessionTemplate) -> dict[str, Any]:
    """Return the template's body; without environment variables under impersonation, because they
    may hold secrets.
    """
    hidden = set() if actor.impersonator_id is None else {"environment"}
    return {name: value for name, value in _current_body(template).items() if name not in hidden}


def _current_body(template: SessionTemplate) -> dict[str, Any]:
    """Return the body with the project's present name (it may have been renamed)."""
    project = {} if template.project is None else {"project": template.project.name}
    return {**template.body, **project}


@transaction.atomic
def create_template(
    *, actor: Actor, name: str, sharing: str, body: object, description: str = "", place: str = ""
) -> tuple[SessionTemplate, list[str]]:
    """Create a template; also return the names of variables that were left out.

    `place` names the project (as “domain/project” if the name is ambiguous) or the domain; default
    is the project of the body, or the own domain. Raises InvalidInput, NotFound, PermissionDenied,
    Conflict, LimitExceeded.
    """
    checked = _check_texts(name=name, description=description)
    kept, left_out = template_body(body)
    if sharing == Sharing.PROJECT:
        place = place or str(kept.get("project", ""))
    template = SessionTemplate(**checked, body=kept, **scope_columns(actor, sharing, place))
    _require_write(actor, template)
    if template.sharing == Sharing.PROJECT and template.project is not None:
        template.body["project"] = template.project.name
    require_free_place(template, _("There are {count} templates already, as many as there may be."))
    _save(actor, template)
    audit_log.record(
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
    """Change name, description or body; also return the names of variables that were left out.
    Raises NotFound, PermissionDenied, InvalidInput, Conflict.
    """
    template = access_template(actor, template_id, locked=True)
    _require_write(actor, template)
    left_out: list[str] = []
    before = {"name": template.name, "description": template.description}
    texts = _check_texts(**{name: changes[name] for name in ("name", "description") if name in changes})
    for name, text in texts.items():
        setattr(template, name, text)
    if "body" in changes:
        template.body, left_out = template_body(changes["body"])
        if template.project is not None:
            template.body["project"] = template.project.name

    _save(actor, template)
    told = audit_log.changed(before, texts) | ({"body": "***"} if "body" in changes else {})
    audit_log.record(actor=actor, action="sessions.change_template", target=template, changes=told)
    return template, left_out


@transaction.atomic
def delete_template(*, actor: Actor, template_id: int) -> None:
    """Delete a template; existing sessions are unaffected. Raises NotFound, PermissionDenied."""
    template = access_template(actor, template_id)
    _require_write(actor, template)
    audit_log.record(actor=actor, action="sessions.delete_template", target=template)
    template.delete()


def start_from_template(
    *, actor: Actor, template: SessionTemplate, name: str = "", project: str = ""
) -> ComputeSession:
    """Start a session from a template, with the checks of any request: the actor's present
    permissions, images, policies and limits. Raises the errors of `enqueue_session`.
    """
    raw = request_body(actor, template, project=project)
    raw["name"] = name or suggest_name(actor, template_name_stem(template.name))
    return enqueue_session(actor=actor, request=parse_request(raw))


def request_body(actor: Actor, template: SessionTemplate, *, project: str = "") -> dict[str, Any]:
    """Return the request body for a session of the actor. The project is `project` or the
    template's; a template shared with the domain or everybody falls back to the actor's first
    project. A replaced image is updated to its newest build.
    """
    raw = _current_body(template)
    own = list(usable_projects(actor).order_by("name").values_list("name", flat=True))
    named = project or raw.get("project") or ""
    is_bound = named in own or (bool(named) and (bool(project) or template.sharing in _OF_ONE_PROJECT))
    raw["project"] = named if is_bound or not own else own[0]
    is_there = visible_images(actor).filter(reference=raw["image"]).exists()
    if not is_there and (successor := newest_image(actor, str(raw["image"]))):
        raw["image"] = successor.reference
    return raw


def _require_write(actor: Actor, template: SessionTemplate) -> None:
    if not can_write(actor, template):
        raise PermissionDenied(
            _("You may not write templates there."),
            hint=_("Keep it for yourself, or ask an administrator of the project or domain."),
        )


def _check_texts(**values: str) -> dict[str, str]:
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


def _save(actor: Actor, template: SessionTemplate) -> None:
    sentence = _("There is a template called “{name}” there already.")
    save_shared(actor, template, "template_name_in_place", sentence, _("Used by a template there already."))
