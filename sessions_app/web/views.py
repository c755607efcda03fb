"""Pages of sessions: launcher, detail, terminal."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from common.api import actor_of
from common.errors import BerthError
from common.idempotency import once_a_form
from common.pages import render_page_or_fragment
from sessions_app import presenters
from sessions_app.links import apps_of
from sessions_app.logs import read_log
from sessions_app.pulls import pull_progress
from sessions_app.requests import parse_request
from sessions_app.selectors import Action, access_session, kernel_named, may
from sessions_app.services import enqueue_session, suggest_name, terminate_session
from sessions_app.shortcuts import quick_start_session, start_session_again
from sessions_app.web.forms import LauncherForm


@require_http_methods(["GET", "POST"])
@login_required
@once_a_form(otherwise="session-list")
def launcher(request: HttpRequest) -> HttpResponse:
    """The form for a new session. What was typed stays in the query string, so that a form can be shared."""
    actor = actor_of(request)
    if request.method == "POST":
        form = LauncherForm(request.POST, actor=actor)
        session = _try_enqueue(request, form)
        if session is not None:
            return redirect("session-detail", session_id=session.pk)
    else:
        initial = {"name": suggest_name(actor, "session"), **request.GET.dict()}
        for several in ("folders", "readonly"):
            initial[several] = request.GET.getlist(several)  # type: ignore[assignment]
        form = LauncherForm(actor=actor, initial=initial)
        if not request.GET:
            form.choose_own_folder(actor)
    status = 422 if form.errors else 200
    context = {"form": form, "sizes": presenters.sizes(actor), "folders": form.folder_rows()}
    return render(request, "sessions_app/launcher.html", context, status=status)


def _try_enqueue(request: HttpRequest, form: LauncherForm):  # type: ignore[no-untyped-def]
    if not form.is_valid():
        return None
    try:
        return enqueue_session(actor=actor_of(request), request=parse_request(form.raw_request()))
    except BerthError as error:
        form.add_refusal(error.fields, f"{error.message} {error.hint}")
        return None


@require_GET
@login_required
def launch_summary(request: HttpRequest) -> HttpResponse:
    """What the launcher's form asks for now, and whether it would start at once. A fragment."""
    form = LauncherForm(request.GET, actor=actor_of(request))
    form.is_valid()
    return render(
        request, "sessions_app/_summary.html", presenters.summary(actor_of(request), form.cleaned_data)
    )


@require_POST
@login_required
@once_a_form(otherwise="session-list")
def quick_start(request: HttpRequest) -> HttpResponse:
    """Start an image with its usual size: one click from the Start page."""
    session = quick_start_session(actor=actor_of(request), image_reference=request.POST.get("image", ""))
    return redirect("session-detail", session_id=session.pk)


@require_POST
@login_required
@once_a_form(otherwise="session-list")
def start_again(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Start a session like an earlier one."""
    session = start_session_again(actor=actor_of(request), session_id=session_id)
    return redirect("session-detail", session_id=session.pk)


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
