"""Expected start of pending sessions, fetched by list pages after they are shown."""

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from agents.models import ResourceGroup
from common.db.pagination import ROWS_PER_PAGE
from common.rest.actor import actor_of
from scheduler.forecast.service import start_ranges_in
from sessions_app.selectors import visible_sessions


@require_GET
@login_required
def expected_starts(request: HttpRequest) -> HttpResponse:
    """Return the sentences for the sessions in ?session= (repeated) that wait and that the viewer
    may see, "" if unknown; others are skipped. Two queries, and those of start_ranges_in for each
    group.
    """
    ids = [found for each in request.GET.getlist("session")[:ROWS_PER_PAGE] if (found := _id_of(each))]
    waiting = visible_sessions(actor_of(request)).waiting().filter(pk__in=ids, held_for="", stops_at=None)
    by_group: dict[int, list[UUID]] = {}
    for pk, group_id in waiting.order_by().values_list("pk", "resource_group_id"):
        by_group.setdefault(group_id, []).append(pk)
    words: dict[UUID, str] = {}
    for group in ResourceGroup.objects.filter(pk__in=by_group):
        ranges = start_ranges_in(group, by_group[group.pk])
        words |= {pk: ranges[pk].words if pk in ranges else "" for pk in by_group[group.pk]}
    return render(request, "scheduler/_starts.html", {"words": words})


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
