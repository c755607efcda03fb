"""Page of past reasons to wait of a session."""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from common.rest.actor import actor_of
from scheduler.history.replay import past_wait, pending_periods
from sessions_app.core.queue_options import check_start_at, instant_of
from sessions_app.selectors import Action, access_session


@require_GET
@login_required
def why_it_waited(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the reasons; ?at= an instant, in ?time_zone= if it names none, shows the last tick
    before it, replayed.
    """
    session = access_session(actor_of(request), session_id, Action.VIEW)
    stays = pending_periods(session)
    context: dict[str, Any] = {"session": session, "stays": stays[::-1], "typed": request.GET.get("at", "")}
    try:
        at = check_start_at(instant_of(request.GET.get("at", ""), request.GET.get("time_zone", "")))
    except ValueError as error:
        return render(request, "scheduler/why.html", {**context, "problem": str(error)}, status=422)
    if at is not None:
        context |= {"at": at, "wait": past_wait(session, at, stays)}
    return render(request, "scheduler/why.html", context)
