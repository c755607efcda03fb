"""Pages of session templates: list, create, delete, start."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.web.form_errors import add_errors
from common.actors import Actor
from common.errors import BerthError, InvalidInput
from common.pages.form_fields import UncheckedChoice, UncheckedField
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from common.values.resources import MEM, format_slots, parse_slots
from images.selectors import visible_images
from sessions_app.core.template_rules import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, Sharing, template_body
from sessions_app.models import SessionTemplate
from sessions_app.selectors import Action, access_session
from sessions_app.session_templates import templates as session_templates_templates
from sessions_app.session_templates.quick_start import session_request_body
from sessions_app.session_templates.sharing import writable_ids
from sessions_app.web.arrays import session_url
from sessions_app.web.forms import LauncherForm
from sessions_app.web.sharing_choices import owner_label, place_choices, sharing_arguments

LONGEST_BODY = 256 * 1024
MOST_DIGITS = 18  # digits of an id


class TemplateForm(forms.Form):
    """Form of a template; `place` is one of "own", "project:uni/vision", "domain:uni", "everybody"."""

    name = UncheckedField(max_length=MAX_NAME_LENGTH, label=gettext_lazy("Name"))
    description = UncheckedField(
        required=False, max_length=MAX_DESCRIPTION_LENGTH, label=gettext_lazy("Description")
    )
    place = UncheckedChoice(label=gettext_lazy("Visibility"), required=False)
    body = UncheckedField(max_length=LONGEST_BODY, widget=forms.HiddenInput)

    def __init__(self, *arguments: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["place"].choices = place_choices(actor)  # type: ignore[attr-defined]


@require_GET
@login_required
def template_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    templates = list(session_templates_templates.visible_templates(actor))
    writable = writable_ids(actor, templates)
    named = {str(each.body.get("image", "")) for each in templates}
    ids = [image for image in named if image.isdecimal() and len(image) <= MOST_DIGITS]
    images = visible_images(actor).filter(pk__in=ids).values_list("pk", "reference")
    references = {str(pk): reference for pk, reference in images}
    rows = [template_row(each, references) | {"can_write": each.pk in writable} for each in templates]
    return render(request, "sessions_app/templates.html", {"rows": rows})


def template_row(template: SessionTemplate, references: Mapping[str, str]) -> dict[str, Any]:
    """Return {"template", "place", "slots", "image", "is_batch"}; `references` maps image ids to
    references, because a template may name its image by id.
    """
    image = str(template.body.get("image", ""))
    asked = {name: text for name, text in template.body.get("resources", {}).items() if name != "shm"}
    return {
        "template": template,
        "place": owner_label(template),
        "slots": format_slots(parse_slots(asked, has_parts=True)) if MEM in asked else "",
        "image": references.get(image, image),
        "is_batch": template.body.get("type") == "batch",
    }


@closed_during_impersonation
@require_http_methods(["GET", "POST"])
@login_required
@submit_once(otherwise="session-templates")
def new_template(request: HttpRequest) -> HttpResponse:
    """Create a template: GET with `?session=` starts from one of the user's sessions, POST from the
    launcher's form; the form itself is a POST with `body`.
    """
    actor = actor_of(request)
    if request.method == "GET":
        return _page(
            request,
            TemplateForm(actor=actor, initial=_initial_from_session(actor, request.GET.get("session", ""))),
        )
    if "body" not in request.POST:
        return _page_from_launcher(request, actor)
    form = TemplateForm(request.POST, actor=actor)
    if form.is_valid():
        try:
            return _save(request, actor, form.cleaned_data)
        except BerthError as refusal:
            add_errors(form, refusal)
    return _page(request, form, status=422)


def _initial_from_session(actor: Actor, session_id: str) -> dict[str, Any]:
    """Return initial values from a session. Raises NotFound, PermissionDenied, InvalidInput."""
    try:
        session = access_session(actor, UUID(session_id), Action.OPEN_APP)
    except ValueError as error:
        raise InvalidInput(_("The address names no session to begin with.")) from error
    body = session_request_body(session, name=session.name)
    body.pop("callback_url")  # templates never keep it, so keep it out of the page too
    return {"name": session.name, "body": json.dumps(body)}


def _page_from_launcher(request: HttpRequest, actor: Actor) -> HttpResponse:
    launcher = LauncherForm(request.POST, actor=actor)
    try:
        raw = launcher.raw_request() if launcher.is_valid() else {}
        template_body(raw)
    except InvalidInput:
        messages.error(request, _("Some choices are missing or wrong, so they cannot be saved yet."))
        return redirect("session-new")
    return _page(request, TemplateForm(actor=actor, initial={"name": raw["name"], "body": json.dumps(raw)}))


def _save(request: HttpRequest, actor: Actor, asked: dict[str, Any]) -> HttpResponse:
    try:
        body = json.loads(asked["body"])
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_("The choices cannot be read. Begin again from the launcher.")) from error
    template, left_out = session_templates_templates.create_template(
        actor=actor,
        name=asked["name"],
        description=asked["description"],
        body=body,
        **sharing_arguments(asked["place"] or Sharing.OWN.value),
    )
    messages.success(request, _("“{name}” is saved.").format(name=template.name))
    if left_out:
        names = ", ".join(left_out)
        messages.warning(
            request, _("Left out, because they sound like secrets: {names}.").format(names=names)
        )
    return redirect("session-templates")


@require_POST
@login_required
def delete_template(request: HttpRequest, template_id: int) -> HttpResponse:
    session_templates_templates.delete_template(actor=actor_of(request), template_id=template_id)
    messages.success(request, _("The template is deleted."))
    return redirect("session-templates")


@require_POST
@login_required
@submit_once(otherwise="session-list")
def start_template(request: HttpRequest, template_id: int) -> HttpResponse:
    """Start a session with one click."""
    actor = actor_of(request)
    template = session_templates_templates.access_template(actor, template_id)
    session = session_templates_templates.start_from_template(actor=actor, template=template)
    return redirect(session_url(session))


def _page(request: HttpRequest, form: TemplateForm, *, status: int = 200) -> HttpResponse:
    return render(request, "sessions_app/new_template.html", {"form": form}, status=status)
