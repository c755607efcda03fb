"""Pages of resource groups: list, settings, grants, agents."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.budgets.selectors import find_owner
from accounts.core.limits import Level
from accounts.models import Domain, Project, User
from accounts.selectors import find_domain, find_user, may_do_everything
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import add_errors
from accounts.web.page_access import page_not_found, require_global_overseer
from agents import grantee as agents_grantee
from agents.capacity.free_capacity import (
    GroupCapacity,
    annotated_capacities,
    group_capacities,
    with_availability,
)
from agents.models import ResourceGroup, Scheduler, Strategy
from agents.ports import excluded_sessions, session_counts
from agents.resource_groups import service
from agents.selectors import access_group, agent_named, group_grants, visible_agents, visible_resource_groups
from agents.web.group_forms import LONGEST_NAME, GrantForm, GroupForm, MoveForm, form_field, group_form_values
from common.actors import Actor
from common.errors import BerthError, InvalidInput, NotFound
from common.pages.tables import Column, Filter, Listing, Table, define_table
from common.pages.toasts import offer_undo
from common.rest.idempotency import submit_once
from common.values.resources import in_order, slot_title
from common.values.text import check_text, quoted

STATES = {"active": True, "paused": False}
TABLE = define_table(
    Table(
        name="resource-groups",
        noun=gettext_noop("resource groups"),
        sort="name",
        search=lambda text: Q(name__icontains=text) | Q(description__icontains=text),
        search_label=gettext_noop("Search by name or description"),
        columns=(
            Column("name", gettext_noop("Resource group"), ("name",), is_fixed=True),
            Column("state", gettext_noop("State"), ("is_active", "name")),
            Column("agents", gettext_noop("Agents")),
            Column("room", gettext_noop("Utilization")),
            Column("sessions", gettext_noop("Sessions")),
            Column("scheduler", gettext_noop("Ordering"), ("scheduler", "name")),
            Column("users", gettext_noop("Access"), ("is_public", "name")),
        ),
        filters=(
            Filter("state", gettext_noop("State"), lambda word: Q(is_active=STATES.get(word))),
            Filter("scheduler", gettext_noop("Ordering"), lambda name: Q(scheduler=name)),
        ),
    )
)
SHOWN_AGENTS = 10


@require_GET
@login_required
def group_list(request: HttpRequest) -> HttpResponse:
    actor = require_global_overseer(request)
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name))
    listing.choices = {
        "state": [("active", _("Active")), ("paused", _("Paused"))],
        "scheduler": [(each.value, str(each.label)) for each in Scheduler],
    }
    page = listing.page(visible_resource_groups(actor), with_availability)
    capacities = {each.id: each for each in annotated_capacities(page)}
    counts = session_counts.get()(capacities)
    rows = [
        {"group": group, **_facts(group, capacities[group.pk], counts.get(group.pk, {}))} for group in page
    ]
    context = {"listing": listing, "columns": listing.columns, "page": page, "rows": rows}
    context["can_create"] = may_do_everything(actor)
    return render(request, "agents/groups.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="resource-groups")
def new_group(request: HttpRequest) -> HttpResponse:
    actor = superadmin_or_404(request)
    if request.method != "POST":
        return render(request, "agents/new_group.html", {"form": GroupForm()})
    form = GroupForm(request.POST)
    if form.is_valid():
        try:
            group = service.create_resource_group(actor=actor, **form.columns())
        except BerthError as refusal:
            _mark(form, refusal)
        else:
            messages.success(
                request,
                _("“{name}” is ready. It has no machines yet: put some into it below.").format(
                    name=group.name
                ),
            )
            return redirect("resource-group", group.pk)
    return render(request, "agents/new_group.html", {"form": form}, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def group_page(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show or change a group. `?agent=` returns the fragment with agents of other groups by part of
    a name.
    """
    actor = require_global_overseer(request) if request.method != "POST" else superadmin_or_404(request)
    group = access_group(actor, group_id)
    if request.method != "POST":
        if request.htmx:  # type: ignore[attr-defined]
            names = _agents_of_other_groups(actor, group, request.GET.get("agent", ""))
            return render(request, "agents/_elsewhere.html", {"elsewhere": names})
        return _page(request, actor, group, GroupForm(initial=group_form_values(group)))
    form = GroupForm(request.POST)
    if form.is_valid():
        excluded = (
            0 if "confirm" in request.POST else excluded_sessions.get().count_excluded(group, form.columns())
        )
        if excluded:
            return _page(request, actor, group, form, warning=_excluded_words(excluded), status=422)
        try:
            service.update_resource_group(actor=actor, group_id=group_id, changes=form.columns())
        except BerthError as refusal:
            _mark(form, refusal)
        else:
            messages.success(
                request,
                _(
                    "The resource group is changed. What runs goes on, and what waits, if it may still start there."
                ),
            )
            return redirect("resource-group", group_id)
    return _page(request, actor, access_group(actor, group_id), form, status=422)


@login_required
@require_POST
def change_state(request: HttpRequest, group_id: int) -> HttpResponse:
    """Pause or resume the group, with an undo link."""
    actor = superadmin_or_404(request)
    to = request.POST.get("to", "")
    if to not in STATES:
        raise InvalidInput(
            _("There is no such state of a resource group."), hint=_("Write active or paused.")
        )
    group = service.update_resource_group(actor=actor, group_id=group_id, changes={"is_active": STATES[to]})
    sentence = (
        _("“{name}” starts sessions again.") if STATES[to] else _("“{name}” is paused: nothing starts there.")
    )
    other = next(state for state in STATES if state != to)
    offer_undo(
        request,
        sentence.format(name=group.name),
        reverse("resource-group-state", args=[group_id]),
        {"to": other},
    )
    return redirect("resource-group", group_id)


@login_required
@require_POST
def delete_group(request: HttpRequest, group_id: int) -> HttpResponse:
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    try:
        if request.POST.get("confirm", "") != group.name:
            raise InvalidInput(_("This is not the name of the resource group, so nothing was done."))
        service.delete_resource_group(actor=actor, group_id=group_id)
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("resource-group", group_id)
    messages.success(request, _("The resource group “{name}” is deleted.").format(name=group.name))
    return redirect("resource-groups")


@login_required
@require_POST
def grant(request: HttpRequest, group_id: int) -> HttpResponse:
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    form = GrantForm(request.POST)
    if form.is_valid():
        try:
            grantee = find_grantee(actor, Level(form.cleaned_data["level"]), form.cleaned_data["grantee"])
            service.grant_resource_group(actor=actor, group_id=group_id, grantee=grantee)
        except BerthError as refusal:
            form.add_error("grantee", refusal.message)
        else:
            sentence = _("{who} may use “{name}” now.")
            messages.success(
                request, sentence.format(who=agents_grantee.grantee_name(grantee), name=group.name)
            )
            return redirect(f"{reverse('resource-group', args=[group_id])}#grants")
    return _page(
        request, actor, group, GroupForm(initial=group_form_values(group)), grant_form=form, status=422
    )


@login_required
@require_POST
def revoke(request: HttpRequest, group_id: int, grant_id: int) -> HttpResponse:
    service.revoke_resource_group(actor=superadmin_or_404(request), group_id=group_id, grant_id=grant_id)
    messages.success(
        request,
        _("The grant is revoked. What runs goes on; what waits by it is held, and cancelled after a day."),
    )
    return redirect(f"{reverse('resource-group', args=[group_id])}#grants")


@login_required
@require_POST
def move_agent(request: HttpRequest, group_id: int) -> HttpResponse:
    """Move an agent of another group into this one."""
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    form = MoveForm(request.POST)
    try:
        if not form.is_valid():
            raise InvalidInput(str(form.errors["agent"][0]))
        agent = agent_named(actor, form.cleaned_data["agent"])
        service.move_agent(actor=actor, agent_id=agent.pk, group_id=group_id)
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    else:
        sentence = _("“{agent}” is in “{name}” now. What runs on it goes on.")
        messages.success(request, sentence.format(agent=agent.name, name=group.name))
    return redirect(f"{reverse('resource-group', args=[group_id])}#agents")


def find_grantee(actor: Actor, level: Level, text: str) -> Domain | Project | User:
    """Return the grantee of that name. Raises NotFound; Conflict if several domains have a project
    of that name.
    """
    if level is Level.DOMAIN:
        return find_domain(actor, text.strip() or "-")
    if level is Level.USER:
        return find_user(actor, text, field="grantee")
    if "@" in text:  # `find_owner` takes it for a person
        raise NotFound.at(
            "grantee", _("There is no project {name} among those that you may see.").format(name=quoted(text))
        )
    return find_owner(actor, text)


def superadmin_or_404(request: HttpRequest) -> Actor:
    """Return the actor if superadmin. Raises NotFound for others, also for monitors, who may only
    look.
    """
    actor = require_global_overseer(request)
    if not may_do_everything(actor):
        raise page_not_found()
    return actor


def _facts(group: ResourceGroup, capacity: GroupCapacity, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of a row for a group."""
    return {
        "state": "active" if group.is_active else "paused",
        "agents": capacity.agents,
        "unavailable_agents": capacity.unavailable_agents,
        "meters": capacity_meters(capacity),
        "waiting": counts.get("waiting", 0),
        "running": counts.get("running", 0),
        "scheduler": Scheduler(group.scheduler).label,
        "strategy": Strategy(group.strategy).label,
    }


def capacity_meters(capacity: GroupCapacity) -> list[dict[str, Any]]:
    """Return the utilization of a group by slot."""
    meters = slot_meters(capacity.occupied, capacity.capacity)
    return [{**meter, "has": capacity.physical[meter["slot"]]} for meter in meters]


def slot_meters(used: Mapping[str, int], limit: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return values for the template tag `meter`: cores, memory, then devices."""
    return [
        {"slot": name, "label": slot_title(name), "used": used.get(name, 0), "limit": limit[name]}
        for name in in_order(limit)
    ]


def _page(
    request: HttpRequest,
    actor: Actor,
    group: ResourceGroup,
    form: GroupForm,
    *,
    grant_form: GrantForm | None = None,
    warning: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the page. `warning`: consequence of the change, which must be confirmed."""
    [capacity] = group_capacities(ResourceGroup.objects.filter(pk=group.pk))
    can_change = may_do_everything(actor)
    machines = visible_agents(actor).in_use().filter(resource_group=group).order_by("name")
    shown = list(machines[:SHOWN_AGENTS])
    context: dict[str, Any] = {
        "group": group,
        "form": form if can_change else None,
        "facts": _facts(group, capacity, session_counts.get()([group.pk]).get(group.pk, {})),
        "machines": shown,
        "machine_count": len(shown) if len(shown) < SHOWN_AGENTS else machines.count(),
        "grants": _grants_of(group),
        "warning": warning,
    }
    if can_change:
        context |= {
            "grant_form": grant_form or GrantForm(),
            "move_form": MoveForm(),
            "elsewhere": _agents_of_other_groups(actor, group, ""),
        }
    return render(request, "agents/group.html", context, status=status)


def _agents_of_other_groups(actor: Actor, group: ResourceGroup, typed: str) -> list[str]:
    """Return names of the first agents of other groups that contain the text."""
    try:
        text = check_text(typed, max_length=LONGEST_NAME).strip()
    except ValueError:
        return []
    others = visible_agents(actor).in_use().exclude(resource_group=group).filter(name__icontains=text)
    return list(others.order_by("name").values_list("name", flat=True)[:SHOWN_AGENTS])


def _grants_of(group: ResourceGroup) -> list[dict[str, Any]]:
    grants = list(group_grants(group))
    dependent = excluded_sessions.get().count_excluded_by_grant(group, grants)
    return [
        {
            "grant": each,
            "title": _title_of(each.grantee),
            "name": agents_grantee.grantee_name(each.grantee),
            "affected": [_excluded_words(dependent[each.pk])] if each.pk in dependent else [],
        }
        for each in grants
    ]


def _excluded_words(count: int) -> str:
    return ngettext(
        "{count} session that waits would be held, and cancelled after a day.",
        "{count} sessions that wait would be held, and cancelled after a day.",
        count,
    ).format(count=count)


def _title_of(grantee: agents_grantee.Grantee) -> str:
    if isinstance(grantee, Project):
        return _("Project of {domain}").format(domain=grantee.domain.name)
    return _("Domain") if isinstance(grantee, Domain) else _("Person")


def _mark(form: GroupForm, refusal: BerthError) -> None:
    refusal.fields = {form_field(column): sentences for column, sentences in refusal.fields.items()}
    add_errors(form, refusal)
