"""Pages that start sessions: launcher with its summary, quick start, start again."""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.web.chosen_project import chosen_project
from common.actors import Actor
from common.errors import BerthError
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from sessions_app.admission.names import suggest_name
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession
from sessions_app.selectors import Action, access_session
from sessions_app.session_templates.quick_start import quick_start_session, start_session_again
from sessions_app.session_templates.templates import access_template
from sessions_app.web import launcher_context
from sessions_app.web.arrays import session_url
from sessions_app.web.forms import LauncherForm
from vfolders.quotas.status import filling_limits

SEVERAL = ("folders", "readonly")
NOT_IN_ADDRESS = ("environment", "command", "callback_url")
"""Fields never put in the URL; they are copied from the session that the form was opened with."""


@require_http_methods(["GET", "POST"])
@login_required
@submit_once(otherwise="session-list")
def launcher(request: HttpRequest) -> HttpResponse:
    """Show the form of a new session. Its values are in the query string, so the form can be
    shared. Without scripts the button “Check first” shows the summary.
    """
    actor = actor_of(request)
    context: dict[str, Any] = {}
    if request.method == "POST":
        form = LauncherForm(request.POST, actor=actor)
        if "check" in request.POST:
            context["summary"] = launcher_context.summary(actor, form)
        elif session := _try_enqueue(actor, form):
            return redirect(session_url(session))
    else:
        initial, context["trouble"] = _initial(actor, request)
        form = LauncherForm(actor=actor, initial=initial)
        if not request.GET:
            form.preselect_own_folder(actor)
    context |= {"form": form, "parts": launcher_context.form_parts(form)}
    context["filling"] = filling_limits(actor, form.scopes, [*form.mountable, *form.automatic])
    return render(request, "sessions_app/launcher.html", context, status=422 if form.errors else 200)


def _initial(actor: Actor, request: HttpRequest) -> tuple[dict[str, Any], str]:
    """Return the form's initial values, from the URL and the session or template it names; and an
    error message if that cannot be used.
    """
    typed: dict[str, Any] = request.GET.dict()
    like, trouble, earlier = typed.pop("like", ""), "", {}
    if like:
        try:
            earlier = launcher_context.initial_from_session(
                actor, access_session(actor, UUID(like), Action.OPEN_APP)
            )
        except ValueError:
            trouble = _("The address names no session to begin with.")
        except BerthError as error:
            trouble = error.message
    if template_id := typed.pop("template", ""):
        try:
            template = access_template(actor, int(template_id))
            earlier = launcher_context.initial_from_template(actor, template)
        except ValueError:
            trouble = _("The address names no template to begin with.")
        except BerthError as error:
            trouble = error.message
    # the form's own URL has all fields; other links have only the differences
    if earlier and "name" not in typed:
        if {"cpu", "mem"} & typed.keys():
            del earlier["size"]
        return {**earlier, **typed}, trouble
    kept = {name: earlier[name] for name in NOT_IN_ADDRESS if name in earlier}
    lists = {name: request.GET.getlist(name) for name in SEVERAL}
    name = chosen_project(request)
    chosen = {"project": name} if name else {}
    return {"name": suggest_name(actor, "session"), **chosen, **kept, **typed, **lists}, trouble


def _try_enqueue(actor: Actor, form: LauncherForm) -> ComputeSession | None:
    if not form.is_valid():
        return None
    try:
        return enqueue_session(actor=actor, request=parse_request(form.raw_request()))
    except BerthError as error:
        form.add_refusal(error)
        return None


@require_POST
@login_required
def launch_summary(request: HttpRequest) -> HttpResponse:
    """Render the summary of the form's request and its forecast as a fragment. Changes nothing; is
    a POST so that variables stay out of URLs.
    """
    actor = actor_of(request)
    summary = launcher_context.summary(actor, LauncherForm(request.POST, actor=actor))
    return render(request, "sessions_app/_summary.html", {"summary": summary, "is_fragment": True})


@require_POST
@login_required
@submit_once(otherwise="session-list")
def quick_start(request: HttpRequest) -> HttpResponse:
    """Start a default session of an image with one click from the Start page."""
    session = quick_start_session(actor=actor_of(request), image_reference=request.POST.get("image", ""))
    return redirect("session-detail", session_id=session.pk)


@require_POST
@login_required
@submit_once(otherwise="session-list")
def start_again(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Start a copy of an earlier session."""
    session = start_session_again(actor=actor_of(request), session_id=session_id)
    return redirect("session-detail", session_id=session.pk)
