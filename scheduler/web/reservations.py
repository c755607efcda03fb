"""The page of what is reserved in a resource group, and reserving more."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.quota import Level
from accounts.selectors import may_do_everything
from accounts.web.doors import overseer_of_all
from accounts.web.marks import mark
from agents import reservations
from agents.models import ResourceGroup
from agents.reservation_selectors import calendar
from agents.selectors import access_group
from common.actors import Actor
from common.errors import BerthError
from common.idempotency import once_a_form
from scheduler.web.groups import grantee_named, superadmin
from scheduler.web.reservation_forms import ReservationForm

SHOWN_AGENTS = 8


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@once_a_form(otherwise="resource-groups")
def reservation_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """A POST reserves. At most 6 queries beside the frame's."""
    actor = overseer_of_all(request) if request.method != "POST" else superadmin(request)
    group = access_group(actor, group_id)
    machines = list(group.agents.in_use().order_by("name").values_list("name", flat=True))
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
@require_POST
def cancel(request: HttpRequest, group_id: int, reservation_id: int) -> HttpResponse:
    reservations.cancel_reservation(
        actor=superadmin(request), group_id=group_id, reservation_id=reservation_id
    )
    messages.success(request, _("The reservation is cancelled. Its machines are for everybody again."))
    return redirect("reservations", group_id)


def _reserve(actor: Actor, group: ResourceGroup, form: ReservationForm) -> bool:
    """False: the form says why not."""
    typed = dict(form.cleaned_data)
    level, whom = typed["level"], typed["grantee"]
    columns: dict[str, Any] = {
        name: typed[name] for name in ("name", "reason", "agents", "starts_at", "ends_at")
    }
    try:
        columns["grantee"] = grantee_named(actor, Level(level), whom) if level else None
    except BerthError as refusal:
        form.add_error("grantee", refusal.message)
        return False
    try:
        reservations.reserve_agents(actor=actor, group_id=group.pk, **columns)
    except BerthError as refusal:
        mark(form, refusal)
        return False
    return True


def _page(
    request: HttpRequest, actor: Actor, group: ResourceGroup, form: ReservationForm, *, status: int = 200
) -> HttpResponse:
    entries = [
        {
            "entry": each,
            "dialog": f"cancel-{each.id}",
            "agents": each.agents[:SHOWN_AGENTS],
            "more": max(0, len(each.agents) - SHOWN_AGENTS),
            "state": "holds" if each.is_open else "to_come",
        }
        for each in calendar(actor, group)
    ]
    context = {"group": group, "entries": entries, "form": form if may_do_everything(actor) else None}
    return render(request, "scheduler/reservations.html", context, status=status)
