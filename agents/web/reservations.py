"""Pages of the reservations of a resource group: calendar, reserve, change, cancel."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core.limits import Level
from accounts.selectors import may_do_everything
from accounts.web.form_errors import add_errors
from accounts.web.page_access import require_global_overseer
from agents.models import ResourceGroup
from agents.reservations import service
from agents.reservations.selectors import CalendarEntry, access_entry, calendar_entries
from agents.selectors import access_group
from agents.web.groups import find_grantee, superadmin_or_404
from agents.web.reservation_calendar import VIEW_NAMES, Calendar, calendar_of, span_of
from agents.web.reservation_forms import NOBODY, ReservationChangeForm, ReservationForm
from common import clock
from common.actors import Actor
from common.errors import BerthError
from common.pages.htmx import render_page_or_fragment
from common.rest.idempotency import submit_once
from common.values.time_zones import zone_or_utc

SHOWN_AGENTS = 8
COLUMNS = ("name", "reason", "agents", "starts_at", "ends_at")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="resource-groups")
def reservation_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show the calendar; POST reserves. ?view= is week or month, ?day= a day in it, ?time_zone= the
    viewer's zone. Also answers the calendar fragment. At most 6 queries beside the frame's.
    """
    actor = require_global_overseer(request) if request.method != "POST" else superadmin_or_404(request)
    group = access_group(actor, group_id)
    machines = _machines(group)
    if request.method != "POST":
        return _page(request, actor, group, ReservationForm(machines=machines))
    form = ReservationForm(request.POST, machines=machines)
    if form.is_valid() and _reserve(actor, group, form):
        messages.success(
            request,
            _("“{name}” is reserved. What runs there goes on.").format(name=form.cleaned_data["name"]),
        )
        return redirect("reservations", group_id)
    return _page(request, actor, group, form, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def reservation_page(request: HttpRequest, group_id: int, reservation_id: int) -> HttpResponse:
    """Show a reservation; POST changes it. At most 6 queries beside the frame's."""
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    entry = access_entry(actor, group, reservation_id)
    form = ReservationChangeForm(
        request.POST if request.method == "POST" else None, machines=_machines(group), entry=entry
    )
    if form.is_valid() and _change(actor, group, entry, form):
        messages.success(request, _("“{name}” is changed.").format(name=form.cleaned_data["name"]))
        return redirect("reservations", group_id)
    context = {"group": group, "entry": entry, "form": form}
    return render(request, "agents/reservation.html", context, status=422 if form.is_bound else 200)


@login_required
@require_POST
def cancel(request: HttpRequest, group_id: int, reservation_id: int) -> HttpResponse:
    service.cancel_reservation(
        actor=superadmin_or_404(request), group_id=group_id, reservation_id=reservation_id
    )
    messages.success(request, _("The reservation is cancelled. Its machines are for everybody again."))
    return redirect("reservations", group_id)


def _reserve(actor: Actor, group: ResourceGroup, form: ReservationForm) -> bool:
    """Reserve agents. Return False if the form has errors."""
    typed = dict(form.cleaned_data)
    level, whom = typed["level"], typed["grantee"]
    columns: dict[str, Any] = {name: typed[name] for name in COLUMNS}
    try:
        columns["grantee"] = find_grantee(actor, Level(level), whom) if level != NOBODY else None
    except BerthError as refusal:
        form.add_error("grantee", refusal.message)
        return False
    try:
        service.reserve_agents(actor=actor, group_id=group.pk, **columns)
    except BerthError as refusal:
        add_errors(form, refusal)
        return False
    return True


def _change(actor: Actor, group: ResourceGroup, entry: CalendarEntry, form: ReservationChangeForm) -> bool:
    """Change the reservation. Return False if the form has errors."""
    columns = {name: form.cleaned_data[name] for name in COLUMNS if name in form.changed_data}
    if form.cleaned_data["is_all"]:
        columns["agents"] = form.cleaned_data["agents"]
    try:
        service.change_reservation(actor=actor, group_id=group.pk, reservation_id=entry.id, **columns)
    except BerthError as refusal:
        add_errors(form, refusal)
        return False
    return True


def _machines(group: ResourceGroup) -> list[str]:
    return list(group.agents.in_use().order_by("name").values_list("name", flat=True))


def _page(
    request: HttpRequest, actor: Actor, group: ResourceGroup, form: ReservationForm, *, status: int = 200
) -> HttpResponse:
    now, query = clock.now(), request.GET
    span = span_of(query.get("view", ""), query.get("day", ""), zone_or_utc(query.get("time_zone", "")), now)
    current, shown = calendar_entries(actor, group, span.begins_at, span.ends_at)
    calendar = calendar_of(span, shown, form.machines, now)
    entries = [
        {
            "entry": each,
            "dialog": f"cancel-{each.id}",
            "agents": each.agents[:SHOWN_AGENTS],
            "more": max(0, len(each.agents) - SHOWN_AGENTS),
            "state": "holds" if each.is_open else "to_come",
        }
        for each in current
    ]
    context = {
        "group": group,
        "entries": entries,
        "form": form if may_do_everything(actor) else None,
        "calendar": calendar,
        "tabs": _tabs(calendar, query),
        "zone": str(span.zone),
    }
    return render_page_or_fragment(
        request, "agents/reservations.html", "agents/_calendar.html", context, status=status
    )


def _tabs(calendar: Calendar, query: QueryDict) -> list[dict[str, Any]]:
    """Return tabs for includes/tabs.html: these days by week and by month."""
    tabs = []
    for view, words in VIEW_NAMES.items():
        link = query.copy()
        link["view"] = view.value
        tabs.append(
            {"label": _(words), "url": f"?{link.urlencode()}", "is_active": view is calendar.span.view}
        )
    return tabs
