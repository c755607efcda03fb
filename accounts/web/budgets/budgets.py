"""Pages of budgets: list, creation and change by administrators, and the rows shown to affected
users.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.budgets import service
from accounts.budgets.selectors import (
    PERIODS,
    UNITS,
    BudgetImpact,
    access_budget,
    budget_impact,
    budget_states,
    budget_warning,
    find_owner,
    format_budget_amount,
    may_change_budget,
    read_budget_states,
    today,
    visible_budgets,
)
from accounts.core.authorization import Action
from accounts.core.budget_arithmetic import BudgetState, round_amount
from accounts.core.limits import Level
from accounts.models import Budget, Project, User, period_contains
from accounts.policies.service import target_level
from accounts.selectors import oversees_people, sees_everything, visible_domains
from accounts.tenancy.preferences import column_choice
from accounts.web.budgets.forms import BudgetForm, NewBudgetForm, budget_initial
from accounts.web.form_errors import errors_as_messages, errors_in_form, form_digest
from accounts.web.page_access import page_not_found
from common.actors import Actor
from common.errors import NotFound
from common.pages.status_styles import Tone
from common.pages.tables import ALL, Column, Filter, Listing, Tab, Table, define_table
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once

FULL = 100
TABLE = define_table(
    Table(
        name="budgets",
        noun=gettext_noop("budgets"),
        sort="owner",
        search=lambda text: (
            Q(project__name__icontains=text) | Q(user__email__icontains=text) | Q(user__name__icontains=text)
        ),
        search_label=gettext_noop("Search by project or person"),
        columns=(
            Column(
                "owner", gettext_noop("Applies to"), (Coalesce("project__name", "user__email"),), is_fixed=True
            ),
            Column("domain", gettext_noop("Domain")),
            Column("spent", gettext_noop("Spent"), ("unit", "amount")),
            Column("left", gettext_noop("Left"), is_number=True),
            Column("state", gettext_noop("State")),
            Column("period", gettext_noop("Period"), ("period", "starts_on")),
        ),
        filters=(
            Filter("of", gettext_noop("Applies to"), lambda level: Q(project__isnull=level != Level.PROJECT)),
            Filter("unit", gettext_noop("Unit"), lambda unit: Q(unit=unit)),
            Filter("period", gettext_noop("Period"), lambda period: Q(period=period)),
            Filter("hard", gettext_noop("When used up"), lambda word: Q(is_hard=word == "refuses")),
            Filter(
                "domain", gettext_noop("Domain"),
                lambda name: Q(project__domain__name=name) | Q(user__domain__name=name),
            ),
        ),
    )
)  # fmt: skip


def budget_rows(states: Iterable[BudgetState]) -> list[dict[str, Any]]:
    """Return the context of includes/budgets.html."""
    return [_budget_row(state) for state in states]


def budget_card(owner: Project | User, *, may_limit: bool) -> dict[str, Any]:
    """Return the context of includes/budget_card.html. At most 3 queries."""
    return {
        "rows": budget_rows(budget_states([(target_level(owner), owner.pk)])),
        "named": _owner_input(owner),
        "may_limit": may_limit,
    }


@require_GET
@login_required
def budget_list(request: HttpRequest) -> HttpResponse:
    actor = _require_overseer(request)
    listing = Listing(
        TABLE,
        request.GET,
        chosen=column_choice(actor, TABLE.name),
        without=() if sees_everything(actor) else ("domain",),
        tabs=_tabs(),
    )
    listing.choices = _choices(actor)
    page = listing.page(visible_budgets(actor), lambda budgets: budgets)
    states = {state.id: state for state in read_budget_states(page)}
    rows = [{**_budget_row(states[budget.pk]), "budget": budget} for budget in page]
    context = {"listing": listing, "columns": listing.columns, "page": page, "rows": rows}
    context["can_create"] = not actor.is_read_only
    return render(request, "accounts/budgets.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="budgets")
def new_budget(request: HttpRequest) -> HttpResponse:
    """Show an empty form; ?for= prefills the owner. POST previews the effect, and creates the
    budget if it is confirmed.
    """
    actor = _require_overseer(request)
    if actor.is_read_only:
        raise page_not_found()
    if request.method != "POST":
        return _budget_page(request, None, NewBudgetForm(initial={"owner": request.GET.get("for", "")[:254]}))
    form = NewBudgetForm(request.POST)
    if form.is_valid():
        with errors_in_form(form):
            wanted, owner = form.wanted(), find_owner(actor, form.cleaned_data["owner"])
            budget = service.build_budget(actor, target_level(owner), owner.pk, wanted)
            confirmed = {**wanted, "owner": owner.pk}
            if request.POST.get("sure") != form_digest(confirmed):
                return _budget_page(
                    request, None, form, impact=budget_impact(budget), sure=form_digest(confirmed)
                )
            budget = service.create_budget(
                actor=actor, level=target_level(owner), owner_id=owner.pk, **wanted
            )
            messages.success(request, _("{name} has a budget now.").format(name=budget.owner_name))
            return redirect("budget", budget.pk)
    return _budget_page(request, None, form, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def budget_page(request: HttpRequest, budget_id: int) -> HttpResponse:
    """Show one budget. POST previews the effect of the change, and saves it if it is confirmed."""
    actor = _require_overseer(request)
    if request.method != "POST":
        budget = access_budget(actor, budget_id, Action.VIEW)
        return _budget_page(request, budget, BudgetForm(initial=budget_initial(budget)))
    budget = access_budget(actor, budget_id, Action.LIMIT)
    form = BudgetForm(request.POST)
    if form.is_valid():
        with errors_in_form(form):
            wanted = form.wanted()
            changed = access_budget(actor, budget_id, Action.LIMIT)
            service.apply_budget_changes(changed, wanted)
            if request.POST.get("sure") != form_digest(wanted):
                return _budget_page(
                    request, budget, form, impact=budget_impact(changed), sure=form_digest(wanted)
                )
            service.update_budget(actor=actor, budget_id=budget_id, changes=wanted)
            messages.success(request, _("The budget is changed."))
            return redirect("budget", budget_id)
    return _budget_page(request, budget, form, status=422)


@login_required
@require_POST
def delete_budget(request: HttpRequest, budget_id: int) -> HttpResponse:
    actor = _require_overseer(request)
    budget = access_budget(actor, budget_id, Action.LIMIT)
    with errors_as_messages(request):
        if request.POST.get("confirm", "") != budget.owner_name:
            raise NotFound(_("This is not whose budget it is, so nothing was done."))
        service.delete_budget(actor=actor, budget_id=budget_id)
        messages.success(request, _("The budget of {name} is removed.").format(name=budget.owner_name))
        return redirect("budgets")
    return redirect("budget", budget_id)


def _budget_row(state: BudgetState) -> dict[str, Any]:
    percent = min(FULL, int(state.spent * FULL / Fraction(state.amount))) if state.amount else FULL
    tone = Tone.BAD if state.is_used_up else Tone.WARN if state.is_nearly_used_up else Tone.BUSY
    return {
        "id": state.id,
        "title": _(UNITS[state.unit]),
        "name": state.owner,
        "owner": _("The project “{name}”").format(name=state.owner)
        if state.level is Level.PROJECT
        else state.owner,
        "used": format_budget_amount(state.unit, round_amount(state.spent)),
        "left": format_budget_amount(state.unit, round_amount(state.left)),
        "amount": format_budget_amount(state.unit, state.amount),
        "percent": percent,
        "tone": tone,
        "state": _state(state),
        "warning": budget_warning(state),
        "is_hard": state.is_hard,
        "is_used_up": state.is_used_up,
        "is_nearly_used_up": state.is_nearly_used_up,
        "period": _(PERIODS[state.period]),
        "first_day": state.first,
        "last_day": state.last,
    }


def _state(state: BudgetState) -> str:
    """Return the state as a key of common.pages.status_styles."""
    if not state.is_current:
        return "to_come" if state.first > today() else "over"
    return "spent" if state.is_used_up else "nearly_spent" if state.is_nearly_used_up else "within"


def _tabs() -> Sequence[Tab]:
    day = today()
    return (
        Tab("now", gettext_noop("Now"), period_contains(day)),
        Tab("to_come", gettext_noop("Upcoming"), Q(starts_on__gt=day)),
        Tab("over", gettext_noop("Past"), Q(ends_on__lt=day)),
        ALL,
    )


def _choices(actor: Actor) -> dict[str, Any]:
    names = visible_domains(actor).values_list("name", flat=True) if sees_everything(actor) else ()
    return {
        "of": [(Level.PROJECT.value, _("Project")), (Level.USER.value, _("Person"))],
        "unit": [(unit.value, _(title)) for unit, title in UNITS.items()],
        "period": [(period.value, _(title)) for period, title in PERIODS.items()],
        "hard": [("refuses", _("hard: refuses")), ("warns", _("soft: warns"))],
        "domain": [(name, name) for name in names],
    }


def _require_overseer(request: HttpRequest) -> Actor:
    """Return the actor if it administers or monitors a domain. Raises NotFound."""
    if not oversees_people(request.user):  # type: ignore[arg-type]
        raise page_not_found()
    return actor_of(request)


def _owner_input(owner: Project | User) -> str:
    """Return the name of the owner as `find_owner` accepts it."""
    return f"{owner.domain.name}/{owner.name}" if isinstance(owner, Project) else owner.email


def _budget_page(
    request: HttpRequest,
    budget: Budget | None,
    form: BudgetForm,
    *,
    impact: BudgetImpact | None = None,
    sure: str = "",
    status: int = 200,
) -> HttpResponse:
    can_change = budget is None or may_change_budget(actor_of(request), budget)
    context: dict[str, Any] = {"budget": budget, "form": form if can_change else None, "sure": sure}
    if impact:
        context["impact"] = {
            "row": _budget_row(impact.state),
            "people": impact.people_count,
            "refuses": impact.state.refuses,
        }
    if budget:
        level, owner_id = budget.owner_key
        context |= {
            "row": _budget_row(read_budget_states([budget])[0]),
            "owner_url": reverse("project" if level is Level.PROJECT else "person", args=[owner_id]),
        }
    return render(request, "accounts/budget.html", context, status=status)
