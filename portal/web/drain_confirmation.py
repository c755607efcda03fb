"""Confirmation page before an agent is drained; shows both sessions and agents."""

from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from accounts.selectors import require_superadmin
from agents.core.states import AgentState
from agents.selectors import access_agent
from common.rest.actor import actor_of
from sessions_app.presentation import session as presentation_session
from sessions_app.selectors import visible_sessions

SHOWN_SESSIONS = 50


@require_GET
@login_required
def ask_to_drain(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Show the sessions that run on the agent, and their owners; the form posts to "agent-state",
    which drains it.
    """
    actor = actor_of(request)
    require_superadmin(actor)
    agent = access_agent(actor, agent_id)
    there = visible_sessions(actor).live().filter(kernels__agent=agent).distinct()
    rows = [presentation_session.row(actor, session) for session in there.for_rows()[:SHOWN_SESSIONS]]
    count = len(rows) if len(rows) < SHOWN_SESSIONS else there.count()
    context = {
        "agent": agent,
        "can_drain": agent.state == AgentState.CONNECTED,
        "rows": rows,
        "count": count,
        "owner_count": there.order_by().values("owner").distinct().count(),
        "more": count - len(rows),
        "back": list_before(request),
    }
    return render(request, "portal/drain.html", context)


def list_before(request: HttpRequest) -> str:
    """Return the address of the agent list, with its filters if the user came from there."""
    came_from, agents = urlsplit(request.headers.get("Referer", "")), reverse("agents")
    is_list = came_from.netloc == request.get_host() and came_from.path == agents and came_from.query
    return f"{agents}?{came_from.query}" if is_list else agents
