"""Pages of the limits of a resource group: amounts for all of its sessions, and for each person."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.selectors import may_do_everything
from accounts.web.form_errors import add_errors
from accounts.web.page_access import require_global_overseer
from agents.core.group_limits import WEEK, GroupLimit, Hours, parse_limits
from agents.models import ResourceGroup
from agents.resource_groups.service import access_limit, remove_limit, save_limit
from agents.selectors import access_group
from agents.web.groups import superadmin_or_404
from agents.web.limit_forms import DAY_NAMES, LimitForm
from common import clock
from common.actors import Actor
from common.errors import BerthError
from common.rest.idempotency import submit_once

SHORTEST_SPAN = 3  # days that are written as a range


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="resource-groups")
def limit_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """List the limits; POST adds one. One query beside the frame's."""
    actor = require_global_overseer(request) if request.method != "POST" else superadmin_or_404(request)
    group = access_group(actor, group_id)
    if request.method != "POST":
        return _page(request, actor, group, LimitForm())
    form = LimitForm(request.POST)
    if form.is_valid() and _save(actor, group, form):
        sentence = _("“{name}” is a limit of this group now. What runs goes on.")
        messages.success(request, sentence.format(name=form.cleaned_data["name"]))
        return redirect("resource-group-limits", group_id)
    return _page(request, actor, group, form, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def limit_page(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show or change the limit named by ?limit=. One query beside the frame's."""
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    stored = access_limit(group, request.GET.get("limit", ""))
    form = LimitForm(request.POST if request.method == "POST" else None, stored=stored)
    if form.is_valid() and _save(actor, group, form, instead_of=stored["name"]):
        sentence = _("The limit “{name}” is changed.")
        messages.success(request, sentence.format(name=form.cleaned_data["name"]))
        return redirect("resource-group-limits", group_id)
    context = {"group": group, "name": stored["name"], "form": form, "address": request.get_full_path()}
    return render(request, "agents/limit.html", context, status=422 if form.is_bound else 200)


@login_required
@require_POST
def remove(request: HttpRequest, group_id: int) -> HttpResponse:
    """Remove the limit named by ?limit=."""
    name = request.GET.get("limit", "")
    remove_limit(actor=superadmin_or_404(request), group_id=group_id, name=name)
    messages.success(request, _("“{name}” is removed. It holds nobody up any more.").format(name=name))
    return redirect("resource-group-limits", group_id)


def _save(actor: Actor, group: ResourceGroup, form: LimitForm, *, instead_of: str = "") -> bool:
    """Save the limit. Return False if the form has errors."""
    try:
        save_limit(actor=actor, group_id=group.pk, limit=form.limit(), instead_of=instead_of)
    except BerthError as refusal:
        add_errors(form, refusal)
        return False
    return True


def _page(
    request: HttpRequest, actor: Actor, group: ResourceGroup, form: LimitForm, *, status: int = 200
) -> HttpResponse:
    now = clock.now()
    rows = [_row(group, number, limit, now) for number, limit in enumerate(parse_limits(group.limits))]
    context = {"group": group, "rows": rows, "form": form if may_do_everything(actor) else None}
    return render(request, "agents/limits.html", context, status=status)


def _row(group: ResourceGroup, number: int, limit: GroupLimit, now: datetime) -> dict[str, Any]:
    """Return the values of a row for a limit."""
    query = {"limit": limit.name}
    return {
        "limit": limit,
        "counts": session_types_text(limit.session_types),
        "hours": None if limit.hours is None else _hours(limit.hours),
        "state": "holds" if limit.is_in_force(now) else "to_come",
        "until": limit.until(now),
        "dialog": f"remove-limit-{number}",
        "change_url": reverse("resource-group-limit", args=[group.pk], query=query),
        "remove_url": reverse("remove-group-limit", args=[group.pk], query=query),
    }


def session_types_text(types: Sequence[str]) -> str:
    """Return the sessions that a limit with these types counts, as text."""
    words = {"interactive": _("Interactive sessions"), "batch": _("Batch sessions")}
    return words[types[0]] if len(types) == 1 else _("All sessions")


def _hours(hours: Hours) -> Mapping[str, Any]:
    return {
        "days": _("Every day") if len(hours.days) == len(WEEK) else _(", ").join(_day_ranges(hours.days)),
        "begins": f"{hours.begins:%H:%M}",
        "ends": f"{hours.ends:%H:%M}",
        "is_overnight": hours.ends <= hours.begins,
        "time_zone": hours.time_zone,
    }


def _day_ranges(days: Sequence[int]) -> Iterator[str]:
    """Yield ranges of three or more days, like "Mon–Fri", and other days one by one."""
    rest = list(days)
    while rest:
        length = next((n for n in range(1, len(rest)) if rest[n] != rest[0] + n), len(rest))
        span, rest = [str(DAY_NAMES[day]) for day in rest[:length]], rest[length:]
        yield from [f"{span[0]}–{span[-1]}"] if length >= SHORTEST_SPAN else span
