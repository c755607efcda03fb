"""Pages of one session: detail, terminal, log."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from common.api import actor_of
from common.pages import render_page_or_fragment
from sessions_app import presenters
from sessions_app.links import apps_of
from sessions_app.logs import read_log
from sessions_app.pulls import pull_progress
from sessions_app.selectors import Action, access_session, kernel_named, may
from sessions_app.services import terminate_session


@require_GET
@login_required
def session_detail(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """One session; the same view answers the fragment that follows its changes."""
    actor = actor_of(request)
    session = access_session(actor, session_id, Action.VIEW)
    context = {
        "session": session,
        "row": presenters.row(actor, session),
        "steps": presenters.steps(session, pull_progress(session.pk)),
        "history": presenters.history(session),
        "apps": apps_of(session) if may(actor, session, Action.OPEN_APP) else [],
        "mounts": session.mounts.all(),
        "launcher_query": presenters.launcher_query(session),
    }
    return render_page_or_fragment(request, "sessions_app/detail.html", "sessions_app/_detail.html", context)


@require_GET
@login_required
def session_terminal(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Terminals of one session, as many as one likes, side by side as tabs."""
    session = access_session(actor_of(request), session_id, Action.OPEN_TERMINAL)
    terminal_url = f"/ws/sessions/{session.pk}/terminal/"
    return render(request, "sessions_app/terminal.html", {"session": session, "terminal_url": terminal_url})


@require_GET
@login_required
def session_log(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The log as a file."""
    session = access_session(actor_of(request), session_id, Action.READ_LOGS)
    response = HttpResponse(read_log(kernel_named(session)), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{session.name}.log"'
    return response


@require_POST
@login_required
def session_stop(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Stop a session and go back to where the button was."""
    session = terminate_session(actor=actor_of(request), session_id=session_id)
    if request.POST.get("back") == "list":
        messages.success(request, f"“{session.name}” is being stopped.")
        return redirect("session-list")
    return redirect("session-detail", session_id=session_id)
