"""Queue page: sessions that wait in the resource groups that the viewer may use."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from agents.capacity.free_capacity import group_capacities
from agents.models import ResourceGroup
from agents.reservations.selectors import calendar
from agents.selectors import visible_resource_groups
from agents.web.groups import capacity_meters, slot_meters
from agents.web.limits import counted_words
from common import clock
from common.db.pagination import ROWS_PER_PAGE
from common.pages.htmx import render_page_or_fragment
from common.rest.actor import actor_of
from common.values.resources import format_slot_list
from sessions_app.limits.group_limits import NOTHING_ALLOCATED, active_limits, allocations_by_group
from sessions_app.queue.listing import queue_places, queued_sessions, queues


@require_GET
@login_required
def queue_page(request: HttpRequest) -> HttpResponse:
    """Show the queue of the group in ?group=, page ?page=. At most 12 queries beside the frame's,
    however many sessions wait. Also answers the live-update fragment.
    """
    actor = actor_of(request)
    groups = list(visible_resource_groups(actor).order_by("-is_default", "name"))
    wanted = request.GET.get("group", "")
    group = next((each for each in groups if each.name == wanted), None)
    group = group or (groups[0] if groups and not wanted else None)
    counts = queues(actor)
    context: dict[str, Any] = {
        "group": group,
        "tabs": [_tab(each, each == group, counts) for each in groups],
        "wanted": wanted,
    }
    if group is not None:
        page = Paginator(queued_sessions([group.pk]), ROWS_PER_PAGE).get_page(request.GET.get("page"))
        first = page.start_index() or 1
        [capacity] = group_capacities(ResourceGroup.objects.filter(pk=group.pk))
        rows = queue_places(actor, list(page), first=first)
        context |= {
            "page": page,
            "rows": [(row, format_slot_list(row.slots)) for row in rows],
            "waiting": [row.id for row in rows if row.id],
            "shows_priority": any(row.priority or row.can_prioritize for row in rows),
            "capacity": capacity,
            "meters": capacity_meters(capacity),
            "reserved": calendar(actor, group),
            "limits": _limits_in_force(group, actor.user_id),
        }
    return render_page_or_fragment(request, "scheduler/queue.html", "scheduler/_queue.html", context)


def _tab(group: ResourceGroup, is_active: bool, counts: Any) -> dict[str, Any]:
    """Return a tab for includes/tabs.html."""
    queue = counts.get(group.pk)
    return {
        "label": group.name,
        "url": reverse("queue", query={"group": group.name}),
        "count": queue.count if queue else 0,
        "is_active": is_active,
    }


def _limits_in_force(group: ResourceGroup, user_id: int | None) -> list[dict[str, Any]]:
    """Return the limits in force with their use. One query, none without limits."""
    limits = active_limits(group, clock.now())
    held = allocations_by_group([group.pk]).get(group.pk, NOTHING_ALLOCATED) if limits else NOTHING_ALLOCATED
    used = [each.used(held) for each in limits]
    return [
        {
            "name": each.limit.name,
            "counts": counted_words(each.limit.session_types),
            "until": each.until,
            "together": slot_meters(its_use.together, each.limit.together),
            "own": slot_meters(its_use.by_owner[user_id or 0], each.limit.each),
        }
        for each, its_use in zip(limits, used, strict=True)
    ]
