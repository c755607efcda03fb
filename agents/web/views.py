"""The Agents page."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from accounts.selectors import sees_everything
from agents.models import Agent
from agents.selectors import visible_agents
from common.actors import Actor
from common.api import actor_of
from common.pages import render_page_or_fragment
from common.slots import CPU, MEM

AGENTS_PER_PAGE = 50
COLUMNS = [{"label": label} for label in ("Agent", "State", "CPU", "Memory", "Images", "Engine", "Seen")]


@require_GET
@login_required
def agent_list(request: HttpRequest) -> HttpResponse:
    """All machines that the reader may see. The same view answers the fragment that follows changes."""
    actor = actor_of(request)
    page = Paginator(visible_agents(actor).with_parts(), AGENTS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "columns": COLUMNS,
        "rows": [row_of(agent, actor) for agent in page],
        "is_admin": sees_everything(actor),
    }
    return render_page_or_fragment(request, "agents/list.html", "agents/_list.html", context)


def row_of(agent: Agent, actor: Actor) -> dict[str, object]:
    """One agent for the page. Where its engine is, and what it last complained of, is for superadmins."""
    capacity, occupied = agent.capacity, agent.occupied
    is_admin = sees_everything(actor)
    return {
        "name": agent.name,
        "group": agent.resource_group.name,
        "state": agent.state,
        "architecture": agent.architecture,
        "cpu": {"used": occupied[CPU], "limit": capacity[CPU]},
        "mem": {"used": occupied[MEM], "limit": capacity[MEM]},
        "images": [image.reference for image in agent.images.all()],
        "devices": agent.data.get("devices", []),
        "engine_version": agent.engine_version,
        "heartbeat_at": agent.heartbeat_at,
        "address": agent.address if is_admin else "",
        "last_error": agent.last_error if is_admin else "",
        "walls_error": agent.data.get("walls", {}).get("error", "") if is_admin else "",
    }
