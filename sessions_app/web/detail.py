"""Pages of one session: tabs, terminals, log download, stop, extend."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from common.actors import Actor
from common.errors import Conflict, InvalidInput, LimitExceeded
from common.pages.htmx import closed_during_impersonation, render_page_or_fragment
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from sessions_app.admission.forecast import forecast_waiting_session
from sessions_app.app_services.urls import app_links
from sessions_app.container_io.logs import read_log
from sessions_app.core.placement import placement_label
from sessions_app.idle import messages as idle_messages
from sessions_app.idle.extension import extend_session
from sessions_app.launch.image_pull import image_transfer
from sessions_app.metrics.allocated_devices import allocated_devices, with_use
from sessions_app.metrics.history import unmeasured_since
from sessions_app.models import ComputeSession, Kernel, SessionType
from sessions_app.presentation import detail
from sessions_app.presentation import session as presentation_session
from sessions_app.queue.dependencies import Dependency, dependencies_of, may_see_name
from sessions_app.queue.priority import change_priority
from sessions_app.selectors import Action, access_session, find_kernel, may
from sessions_app.termination.delayed_stop import cancel_stop, schedule_stop
from sessions_app.web.arrays import array_url
from sessions_app.web.rows import array_position


@require_GET
@login_required
def session_detail(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show one tab of a session. Also answers the fragment for live updates, or with `part=tab` the
    content below the tabs.
    """
    actor = actor_of(request)
    tab = detail.chosen_tab(request.GET.get("tab", ""))
    session = access_session(actor, session_id, detail.TABS[tab][-1])
    prefetch_related_objects([session], "mounts__folder")
    context: dict[str, Any] = {
        "session": session,
        "row": presentation_session.row(actor, session),
        "prospect": forecast_waiting_session(actor, session),
        "apps": app_links(session) if may(actor, session, Action.OPEN_APP) else [],
        "shows_log": session.type == SessionType.BATCH and may(actor, session, Action.READ_LOGS),
        "ending": idle_messages.next_end_row(actor, session),
        "apps_ahead": detail.upcoming_apps(actor, session),
        "outcome": detail.outcome(actor, session),
        "launcher_query": presentation_session.launcher_query(session),
        "tab": tab,
        "tabs": detail.tabs(actor, session, tab),
        "tab_template": f"sessions_app/_{tab}.html",
        **_tab_context(request, actor, session, tab),
    }
    fragment = context["tab_template"] if request.GET.get("part") == "tab" else "sessions_app/_detail.html"
    return render_page_or_fragment(request, "sessions_app/detail.html", fragment, context)


def _tab_context(request: HttpRequest, actor: Actor, session: ComputeSession, tab: str) -> dict[str, Any]:
    """Return the template context of one tab."""
    if tab == "overview":
        devices = with_use(allocated_devices(session))
        steps = presentation_session.steps(session, image_transfer(session))
        return {
            "steps": steps,
            "containers": session.kernels.all(),
            "mounts": session.mounts.all(),
            "dependencies": [
                (each, _dependency_url(each, session, actor)) for each in dependencies_of(session)
            ],
            "priority": detail.priority(actor, session),
            "devices": devices,
            "are_devices_measured": any(device.is_measured for device in devices),
            "array_position": "".join(array_position(session)),
            "placement_words": placement_label(
                session.placement_rule, session.placement_group, session.array.name if session.array else ""
            ),
            "array_url": array_url(session.array_id) if session.array_id else "",
            **_log_context(request, session),
        }
    if tab == "log":
        return _log_context(request, session)
    if tab == "terminal":
        return _terminal_context(request, session)
    if tab == "folders":
        return {"mounts": session.mounts.all()}
    if tab == "history":
        return {
            "history": presentation_session.history(actor, session),
            "callback": detail.callback(actor, session),
        }
    window = detail.chosen_window(request.GET.get("window", ""))
    kernel = find_kernel(session, request.GET.get("kernel", "main1"))
    return {
        **_kernel_choice(session, kernel),
        "window": window.value,
        "windows": detail.windows(window, kernel),
        "present": detail.usage_meters(kernel),
        "unmeasured_since": unmeasured_since(session),
    }


def _dependency_url(dependency: Dependency, session: ComputeSession, actor: Actor) -> str:
    """Return the URL of the session or array that `session` depends on; "" if the actor may not see it."""
    after = dependency.after
    if not may_see_name(after, session, user_id=actor.user_id):
        return ""
    return array_url(after.pk) if dependency.is_array else reverse("session-detail", args=[after.pk])


def _kernel_choice(session: ComputeSession, kernel: Kernel) -> dict[str, Any]:
    return {"kernel_name": kernel.name, "kernel_names": [each.name for each in session.kernels.all()]}


def _log_context(request: HttpRequest, session: ComputeSession) -> dict[str, Any]:
    kernel = find_kernel(session, request.GET.get("kernel", "main1"))
    query = f"kernel={kernel.name}"
    return {
        **_kernel_choice(session, kernel),
        "log_url": f"{reverse('api-session-logs', args=[session.pk])}?follow=1&previews=1&{query}",
        "plain_url": f"{reverse('session-log', args=[session.pk])}?{query}",
        "log_file_name": f"{session.name}-{kernel.name}.log",
    }


def _terminal_context(request: HttpRequest, session: ComputeSession) -> dict[str, Any]:
    kernel = find_kernel(session, request.GET.get("kernel", "main1"))
    return {
        **_kernel_choice(session, kernel),
        "terminal_url": f"/ws/sessions/{session.pk}/terminal/{'' if kernel.is_main else f'?kernel={kernel.name}'}",
    }


@closed_during_impersonation
@require_GET
@login_required
def session_terminal(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the terminals of one session in a separate window, as tabs."""
    session = access_session(actor_of(request), session_id, Action.OPEN_TERMINAL)
    context = {"session": session, **_terminal_context(request, session)}
    return render(request, "sessions_app/terminal.html", context)


@closed_during_impersonation
@require_GET
@login_required
def session_log(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Download the log of one container."""
    session = access_session(actor_of(request), session_id, Action.READ_LOGS)
    kernel = find_kernel(session, request.GET.get("kernel", "main1"))
    response = HttpResponse(read_log(kernel), content_type="text/plain; charset=utf-8")
    name = session.name if len(session.kernels.all()) == 1 else f"{session.name}-{kernel.name}"
    response["Content-Disposition"] = content_disposition_header(True, f"{name}.log") or "attachment"
    return response


@require_POST
@login_required
def session_stop(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Schedule a stop in ten seconds with undo, and return to the page of the button."""
    session = schedule_stop(actor=actor_of(request), session_id=session_id)
    back = request.POST.get("back", "")
    if session.stops_at is not None and session.is_live:
        undo_url = reverse("session-keep", args=[session_id])
        offer_undo(
            request, _("“{session}” is being stopped.").format(session=session.name), undo_url, {"back": back}
        )
    return _redirect_back(back, session_id)


@require_POST
@login_required
def session_keep(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Cancel a scheduled stop."""
    try:
        session = cancel_stop(actor=actor_of(request), session_id=session_id)
    except Conflict as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}")
    else:
        messages.success(request, _("“{session}” goes on.").format(session=session.name))
    return _redirect_back(request.POST.get("back", ""), session_id)


@require_POST
@login_required
@submit_once(otherwise="session-list")
def session_extend(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Extend a session, and return to its page."""
    try:
        session = extend_session(actor=actor_of(request), session_id=session_id)
    except (Conflict, LimitExceeded) as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    else:
        messages.success(request, _("“{session}” was extended.").format(session=session.name))
    return redirect("session-detail", session_id=session_id)


@require_POST
@login_required
def session_priority(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Change the priority, and return to the page of the form: the session, or with `back` (name of
    a resource group) and `page` its queue.
    """
    try:
        session = change_priority(
            actor=actor_of(request), session_id=session_id, priority=request.POST.get("priority", "")
        )
    except (Conflict, InvalidInput, LimitExceeded) as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    else:
        messages.success(request, _priority_message(session))
    if group := request.POST.get("back", ""):
        return redirect(reverse("queue", query={"group": group, "page": request.POST.get("page", "")}))
    return redirect("session-detail", session_id=session_id)


def _priority_message(session: ComputeSession) -> str:
    sentence = _("“{session}” waits with priority {priority} now.")
    return sentence.format(session=session.name, priority=session.priority)


def _redirect_back(place: str, session_id: UUID) -> HttpResponse:
    return redirect("session-list") if place == "list" else redirect("session-detail", session_id=session_id)
