"""Dashboard: own sessions and usage, capacity of resource groups, agents (superadmins)."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Case, Count, IntegerField, Value, When
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from accounts.limits import actor_user_scope
from accounts.selectors import sees_everything
from agents.capacity.free_capacity import GroupCapacity, usable_group_capacities
from agents.core.states import AgentState
from agents.models import Agent
from common.pages.htmx import render_page_or_fragment
from common.pages.status_styles import Tone, status_style
from common.rest.actor import actor_of
from common.values.resources import CPU, MEM, ResourceSlots, format_slots, in_order, slot_title
from sessions_app.core.states import LAUNCHING, Status
from sessions_app.limits.policy_limits import own_session_limit
from sessions_app.metrics.own_usage import allocated_by_group, own_live_sessions, sum_usage
from sessions_app.models import ComputeSession
from sessions_app.presentation import session as presentation_session
from sessions_app.queue.listing import Queue, visible_queues

SHOWN_SESSIONS = 6
SHOWN_AGENTS = 6
NEARLY_ALL_PERCENT = 85
# States that need attention, worst first.
UNWELL = (AgentState.LOST, AgentState.DRAINING, AgentState.MAINTENANCE)


@require_GET
@login_required
def dashboard(request: HttpRequest) -> HttpResponse:
    """Show the page, or the fragment that refreshes it. At most eight queries besides the frame's,
    ten for superadmins, regardless of size.
    """
    actor = actor_of(request)
    sessions = own_live_sessions(actor)
    use, own, waiting = sum_usage(sessions), allocated_by_group(sessions), visible_queues(actor)
    context = {
        "tiles": tiles(sessions),
        "rows": [
            presentation_session.row(actor, session) for session in running_first(sessions)[:SHOWN_SESSIONS]
        ],
        "more_sessions": max(0, len(sessions) - SHOWN_SESSIONS),
        "live": share_of_limit(len(sessions), own_session_limit(actor_user_scope(actor))),
        "use": use,
        "used": meters(readable(use.used), use.measured, only=(CPU, MEM)),
        "held": format_slots(use.allocated) if use.allocated else "",
        "groups": [
            group_card(capacity, own.get(capacity.id, ResourceSlots()), waiting.get(capacity.id))
            for capacity in usable_group_capacities(actor)
        ],
        "agents": agents_at_work() if sees_everything(actor) else None,
    }
    return render_page_or_fragment(request, "portal/dashboard.html", "portal/_dashboard.html", context)


def readable(measured: ResourceSlots) -> ResourceSlots:
    """Round cores to a hundredth; more digits are noise."""
    return ResourceSlots({**measured, CPU: round(measured[CPU], -1)})


def tiles(sessions: Iterable[ComputeSession]) -> list[dict[str, Any]]:
    """Return the number of own sessions in each state, as links to them."""
    counts = dict.fromkeys(Status, 0)
    for session in sessions:
        counts[Status(session.status)] += 1
    lists = reverse("session-list")
    return [
        _tile(_("Running"), counts[Status.RUNNING], "player-play", Tone.GOOD, f"{lists}?status=running"),
        _tile(_("Starting"), sum(counts[status] for status in LAUNCHING), "rocket", Tone.BUSY, lists),
        _tile(_("Waiting"), counts[Status.PENDING], "hourglass", Tone.WARN, f"{lists}?status=pending"),
        _tile(
            _("Ending"), counts[Status.TERMINATING], "player-stop", Tone.QUIET, f"{lists}?status=terminating"
        ),
    ]


def _tile(label: str, count: int, icon: str, tone: Tone, url: str) -> dict[str, Any]:
    return {"label": label, "value": count, "icon": icon, "tone": tone if count else Tone.QUIET, "url": url}


def running_first(sessions: Iterable[ComputeSession]) -> list[ComputeSession]:
    """Sort running sessions first, then the others; pending ones by queue position."""
    return sorted(sessions, key=lambda session: (not session.is_running, session.queue_position or 0))


def share_of_limit(used: int, limit: int | None) -> dict[str, Any]:
    """Return usage of a limit for includes/meter.html; a limit of None means unlimited."""
    percent = 0 if limit is None else min(100, round(100 * used / limit)) if limit else 100
    is_full = limit is not None and used >= limit
    tone = Tone.BAD if is_full else Tone.WARN if percent >= NEARLY_ALL_PERCENT else Tone.BUSY
    return {"used": used, "limit": limit, "percent": percent, "tone": tone}


def meters(
    used: ResourceSlots, limit: ResourceSlots, own: ResourceSlots | None = None, *, only: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return [{"label", "slot", "used", "limit", "own"}] of each slot in `limit`."""
    names = in_order(limit)
    return [
        {
            "label": slot_title(name),
            "slot": name,
            "used": used[name],
            "limit": limit[name],
            "own": min(own[name], used[name]) if own else 0,
        }
        for name in names
        if not only or name in only
    ]


def group_card(capacity: GroupCapacity, own: ResourceSlots, queue: Queue | None) -> dict[str, Any]:
    """Return a resource group as the page shows it."""
    return {
        "name": capacity.name,
        "agents": capacity.agents,
        "unavailable_agents": capacity.unavailable_agents,
        "meters": meters(capacity.occupied, capacity.capacity, own),
        "free": format_slots(capacity.free),
        "largest_free": format_slots(capacity.largest_free) if capacity.largest_free_agent else "",
        "largest_free_agent": capacity.largest_free_agent,
        "queue": queue,
        "tone": Tone.BAD if not capacity.agents else Tone.WARN if queue else Tone.GOOD,
    }


def agents_at_work() -> Mapping[str, Any]:
    """Return {"tiles", "unwell": agents that need attention, "more"}. 2 queries."""
    counts = dict(Agent.objects.order_by().values_list("state").annotate(Count("pk")))
    lists = reverse("agents")
    states = [AgentState.CONNECTED, *UNWELL]
    worst_first = Case(
        *(When(state=state.value, then=Value(order)) for order, state in enumerate(UNWELL)),
        output_field=IntegerField(),
    )
    unwell = Agent.objects.in_state(*UNWELL).select_related("resource_group").order_by(worst_first, "name")
    return {
        "tiles": [_agent_tile(state, counts.get(state.value, 0), lists) for state in states],
        "unwell": list(unwell[:SHOWN_AGENTS]),
        "more": max(0, sum(counts.get(state.value, 0) for state in UNWELL) - SHOWN_AGENTS),
    }


def _agent_tile(state: AgentState, count: int, lists: str) -> dict[str, Any]:
    style = status_style(state.value)
    return _tile(style.label, count, style.icon, style.tone, f"{lists}?state={state.value}")
