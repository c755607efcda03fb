"""Start page, style guide, administration overview and API reference."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from accounts.core.limits import Scope
from accounts.limits import read_scopes, scope_ids
from accounts.models import User
from accounts.selectors import cached_projects, may_do_everything, sees_everything
from agents.core.states import AgentState
from agents.models import Agent
from common.errors import NotFound
from common.pages.htmx import render_page_or_fragment
from common.pages.status_styles import Tone
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from common.values.resources import format_slots
from images.models import ContainerImage
from images.selectors import refusal_summaries, visible_images
from portal.api.health import redis_answers
from portal.web.api_reference import operation_groups
from portal.web.style_samples import sample_context, sample_log, sample_metrics
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, ResourcePreset
from sessions_app.presentation import session as presentation_session
from sessions_app.selectors import own_sessions
from sessions_app.session_templates.presets import offered_presets
from sessions_app.session_templates.quick_start import OWN_FOLDER, own_folder_refusal, quick_slots

SHOWN_SESSIONS = 6
SHOWN_ENDED = 3


@require_GET
@login_required
def start(request: HttpRequest) -> HttpResponse:
    """Show quick starts and own sessions, as a page or as the fragment that refreshes it."""
    actor = actor_of(request)
    live = list(own_sessions(actor).live().at_work_first().with_parts()[:SHOWN_SESSIONS])
    ended = list(own_sessions(actor).ended().with_parts()[:SHOWN_ENDED])
    projects = cached_projects(request.user)  # type: ignore[arg-type]
    project = projects[0] if projects else None
    scopes = read_scopes(scope_ids(actor, project).keys())
    context = {
        "rows": [presentation_session.row(actor, session) for session in live],
        "waiting": [session.pk for session in live if session.status == Status.PENDING],
        "recent": [presentation_session.row(actor, session) for session in ended],
        "last": presentation_session.row(actor, ended[0]) if ended else None,
        "columns": presentation_session.columns(),
        "quick_starts": quick_starts(
            visible_images(actor),
            scopes,
            own_folder_refusal(actor, scopes),
            offered_presets(actor, project) if project else (),
        ),
        "projects": projects,
    }
    return render_page_or_fragment(request, "portal/start.html", "portal/_start_sessions.html", context)


def quick_starts(
    images: Iterable[ContainerImage],
    scopes: Sequence[Scope],
    no_folder: str = "",
    presets: Sequence[ResourcePreset] = (),
) -> list[dict[str, Any]]:
    """Return the sessions that one click can start: [{"image", "slots", "app" ("" if none),
    "folder", "objection"}]; images not allowed by policies come last. `no_folder` is the reason if
    no folder can be mounted.
    """
    images = list(images)
    found = refusal_summaries(scopes, images)
    return [
        {
            "image": image,
            "slots": format_slots(quick_slots(image, presets)),
            "app": image.app_hints[0].title if image.app_hints else "",
            "folder": OWN_FOLDER,
            "objection": found.get(image.reference, no_folder),
        }
        for image in sorted(images, key=lambda image: image.reference in found)
    ]


@require_http_methods(["GET", "POST"])
@login_required
def styleguide(request: HttpRequest) -> HttpResponse:
    """Show every component, for superadmins and tests. POST only shows a toast, or undoes it."""
    if not may_do_everything(actor_of(request)):
        raise NotFound(_("There is nothing at this address, or it is not yours to see."))
    if request.method == "POST":
        if "sample" in request.POST:
            messages.info(request, "Taken back.")
        else:
            offer_undo(request, "Session “train” is stopped.", request.path, {"sample": "1"})
        return redirect("styleguide")
    return render(request, "styleguide.html", sample_context(request.GET.get("page", "1")))


@require_GET
@login_required
def styleguide_metrics(request: HttpRequest) -> JsonResponse:
    """Return sample data for the charts of the style guide."""
    if not may_do_everything(actor_of(request)):
        raise NotFound(_("There is nothing at this address, or it is not yours to see."))
    return JsonResponse(sample_metrics())


@require_GET
@login_required
def styleguide_log(request: HttpRequest) -> HttpResponse:
    """Return the sample log of the style guide."""
    if not may_do_everything(actor_of(request)):
        raise NotFound(_("There is nothing at this address, or it is not yours to see."))
    return HttpResponse(sample_log(), content_type="text/plain; charset=utf-8")


@require_GET
@login_required
def administration(request: HttpRequest) -> HttpResponse:
    """Show health and links to all settings, for superadmins and monitors."""
    if not sees_everything(actor_of(request)):
        raise NotFound(_("There is nothing at this address, or it is not yours to see."))
    return render(request, "portal/administration.html", {"facts": overview_facts()})


@require_GET
@login_required
def api_reference(request: HttpRequest) -> HttpResponse:
    """Show the REST API, rendered from the OpenAPI document."""
    sample_line = f"curl -H 'Authorization: Bearer TOKEN' {settings.BERTH_URL}/api/v1/sessions/"
    context = {"groups": operation_groups(), "sample_line": sample_line}
    return render(request, "portal/api_reference.html", context)


def overview_facts() -> list[dict[str, Any]]:
    """Return [{"label", "value", "icon", "tone", "url"}]. 3 queries."""
    sessions = _counts(ComputeSession.objects.live())
    agents = dict(Agent.objects.order_by().values_list("state").annotate(Count("pk")))
    connected, lost = agents.get(AgentState.CONNECTED.value, 0), agents.get(AgentState.LOST.value, 0)
    waiting = sessions.get(Status.PENDING.value, 0)
    has_redis = redis_answers()
    return [
        _fact(
            _("Running sessions"),
            sessions.get(Status.RUNNING.value, 0),
            "terminal-2",
            url=reverse("session-list"),
        ),
        _fact(_("Waiting sessions"), waiting, "hourglass", tone=Tone.WARN if waiting else Tone.GOOD),
        _fact(
            _("Agents connected"),
            _("{connected}, {lost} lost").format(connected=connected, lost=lost) if lost else connected,
            "server",
            tone=Tone.BAD if lost else Tone.GOOD,
            url=reverse("agents"),
        ),
        _fact(
            _("People"),
            User.objects.filter(is_active=True).count(),
            "users",
            url=reverse("admin:accounts_user_changelist"),
        ),
        *([] if has_redis else [_fact("Redis", _("does not answer"), "server-off", tone=Tone.BAD)]),
    ]


def _counts(sessions: Any) -> dict[str, int]:
    return dict(sessions.order_by().values_list("status").annotate(Count("pk")))


def _fact(label: str, value: object, icon: str, *, tone: Tone = Tone.GOOD, url: str = "") -> dict[str, Any]:
    return {"label": label, "value": value, "icon": icon, "tone": tone, "url": url}
