"""Queue page: sessions that wait in the resource groups that the viewer may use, and their expected
starts.
"""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from agents.capacity.free_capacity import group_capacities
from agents.models import ResourceGroup
from agents.reservations.selectors import current_entries
from agents.selectors import visible_resource_groups
from agents.web.groups import capacity_meters, slot_meters
from agents.web.limits import session_types_text
from common import clock
from common.db.pagination import ROWS_PER_PAGE
from common.pages.htmx import render_page_or_fragment
from common.rest.actor import actor_of
from common.values.resources import format_slot_list
from scheduler.forecast.service import start_ranges_in
from sessions_app.limits.group_limits import NOTHING_ALLOCATED, active_limits, allocations_by_group
from sessions_app.queue.listing import queue_places, queued_sessions, visible_queues
from sessions_app.selectors import visible_sessions


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
    counts = visible_queues(actor)
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
            "reserved": current_entries(actor, group),
            "limits": _limits_in_force(group, actor.user_id),
        }
    return render_page_or_fragment(request, "scheduler/queue.html", "scheduler/_queue.html", context)


@require_GET
@login_required
def expected_starts(request: HttpRequest) -> HttpResponse:
    """Return the sentences for the sessions in ?session= (repeated) that wait and that the viewer
    may see, "" if unknown; others are skipped. Two queries, and those of start_ranges_in for each
    group.
    """
    ids = [found for each in request.GET.getlist("session")[:ROWS_PER_PAGE] if (found := _parse_id(each))]
    waiting = visible_sessions(actor_of(request)).waiting().filter(pk__in=ids, held_for="", stops_at=None)
    by_group: dict[int, list[UUID]] = {}
    for pk, group_id in waiting.order_by().values_list("pk", "resource_group_id"):
        by_group.setdefault(group_id, []).append(pk)
    words: dict[UUID, str] = {}
    for group in ResourceGroup.objects.filter(pk__in=by_group):
        ranges = start_ranges_in(group, by_group[group.pk])
        words |= {pk: ranges[pk].words if pk in ranges else "" for pk in by_group[group.pk]}
    return render(request, "scheduler/_starts.html", {"words": words})


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


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
            "counts": session_types_text(each.limit.session_types),
            "until": each.until,
            "together": slot_meters(its_use.together, each.limit.together),
            "own": slot_meters(its_use.by_owner[user_id or 0], each.limit.each),
        }
        for each, its_use in zip(limits, used, strict=True)
    ]
