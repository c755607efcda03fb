"""Pages on which an agent is drained or put into maintenance; they show both sessions and agents."""

from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from accounts.selectors import require_superadmin
from accounts.web.form_errors import errors_in_form
from agents.core.states import AgentState, is_legal
from agents.machines.lifecycle import Maintenance
from agents.machines.service import change_agent_state
from agents.models import Agent
from agents.selectors import access_agent
from agents.web.reservation_forms import MaintenanceForm
from common.actors import Actor
from common.errors import BerthError
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
    context = {
        "agent": agent,
        "can_drain": agent.state == AgentState.CONNECTED,
        "back": list_before(request),
        **_sessions_on(actor, agent),
    }
    return render(request, "portal/drain.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def begin_maintenance(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Put an agent into maintenance with an end and a reason, or change them."""
    actor = actor_of(request)
    require_superadmin(actor)
    agent = access_agent(actor, agent_id)
    form = MaintenanceForm(request.POST if request.method == "POST" else None, agent)
    if form.is_valid():
        planned = Maintenance(form.cleaned_data["ends_at"], form.cleaned_data["because"])
        with errors_in_form(form, BerthError):
            change_agent_state(actor=actor, agent_id=agent_id, to=AgentState.MAINTENANCE, maintenance=planned)
            messages.success(request, _("“{name}” is in maintenance.").format(name=agent.name))
            return redirect("agent", agent_id)
    can_begin = agent.state == AgentState.MAINTENANCE or is_legal(
        AgentState(agent.state), AgentState.MAINTENANCE
    )
    context = {"agent": agent, "form": form, "can_begin": can_begin, **_sessions_on(actor, agent)}
    return render(request, "portal/maintenance.html", context, status=422 if form.errors else 200)


def _sessions_on(actor: Actor, agent: Agent) -> dict[str, Any]:
    there = visible_sessions(actor).live().filter(kernels__agent=agent).distinct()
    rows = [presentation_session.row(actor, session) for session in there.for_rows()[:SHOWN_SESSIONS]]
    count = len(rows) if len(rows) < SHOWN_SESSIONS else there.count()
    return {
        "rows": rows,
        "count": count,
        "owner_count": there.order_by().values("owner").distinct().count(),
        "more": count - len(rows),
    }


def list_before(request: HttpRequest) -> str:
    """Return the address of the agent list, with its filters if the user came from there."""
    came_from, agents = urlsplit(request.headers.get("Referer", "")), reverse("agents")
    is_list = came_from.netloc == request.get_host() and came_from.path == agents and came_from.query
    return f"{agents}?{came_from.query}" if is_list else agents
