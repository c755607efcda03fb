"""Queries for budgets: spending, visibility, affected users, and the impact of an unsaved
budget.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Case, DateField, DateTimeField, DecimalField, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.core import budget_arithmetic
from accounts.core.authorization import Action
from accounts.core.budget_arithmetic import BudgetState, DayUse, LiveAllocation, Period, Unit
from accounts.core.limits import Level
from accounts.models import Budget, DaySlots, Membership, Price, Project, User, period_contains
from accounts.policies.service import access_limited
from accounts.ports import allocations
from accounts.selectors import (
    actions_on_project,
    actions_on_user,
    known_projects,
    may_do_everything,
    permission_refusal,
    read_actor_scope,
    sees_everything,
    visible_users,
)
from common import clock
from common.actors import Actor
from common.errors import Conflict, NotFound
from common.values.money import format_money
from common.values.text import quoted

Owner = tuple[Level, int]  # a project or a user
OWNERS = {Level.PROJECT: "project_id", Level.USER: "user_id"}
UNITS = {Unit.MONEY: gettext_noop("Money"), Unit.DEVICE_HOURS: gettext_noop("GPU-hours")}
PERIODS = {
    Period.MONTH: gettext_noop("Month"),
    Period.QUARTER: gettext_noop("Quarter"),
    Period.TERM: gettext_noop("Term"),
}


@dataclass(frozen=True, slots=True)
class BudgetImpact:
    """Effect of an unsaved budget: `state` with its spending so far, and the number of users whose
    sessions count against it.
    """

    state: BudgetState
    people_count: int


def today() -> date:
    """Today in UTC, the time zone of budgets and prices."""
    return clock.now().astimezone(UTC).date()


def tomorrow() -> date:
    """First day whose prices may be set: past hours keep their price."""
    return today() + timedelta(days=1)


def budget_states(owners: Collection[Owner], at: datetime | None = None) -> list[BudgetState]:
    """Return the budgets of these projects and users in the current period, with spending up to now
    including running sessions. One query if there are none, else at most 3.
    """
    now = at or clock.now()
    ids = {level: [pk for each, pk in owners if each is level] for level in OWNERS}
    is_owned = Q(project_id__in=ids[Level.PROJECT]) | Q(user_id__in=ids[Level.USER])
    current = Budget.objects.filter(is_owned, period_contains(now.astimezone(UTC).date()))
    return read_budget_states(current.select_related("project", "user").order_by("pk"), now)


def read_budget_states(budgets: Iterable[Budget], at: datetime | None = None) -> list[BudgetState]:
    """Return the states of these budgets, past and future terms included. Owners are read from the
    budgets. 2 queries, or 1 if none counts money.
    """
    now, budgets = at or clock.now(), list(budgets)
    if not budgets:
        return []
    day = now.astimezone(UTC).date()
    periods = [
        budget_arithmetic.period_bounds(Period(each.period), day, each.starts_on, each.ends_on)
        for each in budgets
    ]
    owners = {each.owner_key for each in budgets}
    has_money = any(each.unit == Unit.MONEY for each in budgets)
    prices = _prices() if has_money else []
    since = min(first for first, _end in periods)
    edges = {each for period in periods for each in period} | {price.since for price in prices}
    uses = _read_uses(owners, sorted({since, *(edge for edge in edges if edge > since)}), now)
    return [
        _state(
            each, first, end, day, budget_arithmetic.uses_between(uses[each.owner_key], first, end), prices
        )
        for each, (first, end) in zip(budgets, periods, strict=True)
    ]


def _prices() -> list[budget_arithmetic.Price]:
    return [
        budget_arithmetic.Price(*row) for row in Price.objects.values_list("slot_name", "since", "per_hour")
    ]


def budget_refusals(states: Iterable[BudgetState]) -> list[str]:
    """Return a sentence for each budget that refuses new sessions."""
    return [_spent_sentence(state) for state in states if state.refuses]


def visible_budgets(actor: Actor) -> QuerySet[Budget]:
    """Budgets of the actor, of projects known to the actor and of users visible to the actor."""
    budgets = Budget.objects.select_related("project__domain", "user__domain").order_by("pk")
    if sees_everything(actor):
        return budgets.filter(Q(user=None) | Q(user__purged_at=None))
    return budgets.filter(Q(project__in=known_projects(actor)) | Q(user__in=visible_users(actor)))


def access_budget(actor: Actor, budget_id: int, action: Action) -> Budget:
    """Fetch one budget, for any other action than VIEW only if the actor may limit its owner.
    Raises NotFound, PermissionDenied.
    """
    budget = visible_budgets(actor).filter(pk=budget_id).first()
    if budget is None:
        raise NotFound(_("There is no such budget among those that you may see."))
    if action is Action.VIEW:
        return budget
    access_limited(actor, *budget.owner_key)
    if budget.is_central and not may_do_everything(actor):
        raise permission_refusal(
            _("A superadmin set the budget of {name}, so superadmins change it."), budget.owner_name
        )
    return budget


def may_change_budget(actor: Actor, budget: Budget) -> bool:
    """Return true if the actor may change the budget. At most 2 queries."""
    return may_limit(actor, budget.owner) and (may_do_everything(actor) or not budget.is_central)


def may_limit(actor: Actor, owner: Project | User) -> bool:
    """Return true if the actor may limit the owner. At most 2 queries."""
    if may_do_everything(actor):
        return True
    act = actions_on_project if isinstance(owner, Project) else actions_on_user
    return Action.LIMIT in act(read_actor_scope(actor), owner)  # type: ignore[arg-type]


def find_owner(actor: Actor, text: str) -> Project | User:
    """Return the visible owner that `text` names: e-mail address of a user or name of a project;
    “domain/project” if the name is ambiguous. Raises NotFound, Conflict.
    """
    domain, _slash, name = text.strip().rpartition("/")
    if "@" in text:
        found: list[Any] = list(visible_users(actor).filter(email=text.strip().lower())[:1])
    else:
        projects = known_projects(actor).filter(name=name)
        found = list((projects.filter(domain__name=domain) if domain else projects)[:2])
    if not found:
        sentence = _("There is no person or project {name} among those that you may see.").format(
            name=quoted(text, 80)
        )
        raise NotFound.at("owner", sentence)
    if len(found) > 1:
        sentence = _(
            "Several projects are called {name}: write the domain before it, like {example}."
        ).format(name=quoted(name, 64), example=f"{found[0].domain.name}/{name}")
        raise Conflict.at("owner", sentence)
    return found[0]  # type: ignore[no-any-return]


def budget_impact(budget: Budget) -> BudgetImpact:
    """Return the impact of a budget, saved or not. 3 queries."""
    [state] = read_budget_states([budget])
    return BudgetImpact(state, len(affected_user_ids({budget.owner_key})[budget.owner_key]))


def affected_user_ids(owners: Collection[Owner]) -> dict[Owner, list[int]]:
    """Return the ids of active users whose sessions count for these owners: the user, or the
    members of the project. One query.
    """
    projects = [pk for level, pk in owners if level is Level.PROJECT]
    people = [pk for level, pk in owners if level is Level.USER]
    found: dict[Owner, list[int]] = {owner: [] for owner in owners}
    members = Membership.objects.filter(project_id__in=projects, user__is_active=True)
    themselves = User.objects.filter(pk__in=people, is_active=True)
    rows = members.values_list(Value(Level.PROJECT.value), "project_id", "user_id").union(
        themselves.values_list(Value(Level.USER.value), "pk", "pk"), all=True
    )
    for level, owner_id, user_id in rows:
        found[Level(level), owner_id].append(user_id)
    return found


def _read_uses(owners: Collection[Owner], edges: Sequence[date], now: datetime) -> dict[Owner, list[DayUse]]:
    """Return allocations from the ledger and from live sessions. One statement reads both, so that
    a session that ends meanwhile is counted exactly once. Days between two `edges` are summed under
    the first of them: no period begins and no price changes between them.
    """
    found: dict[Owner, list[DayUse]] = {owner: [] for owner in owners}
    first, *others = _use_queries(owners, edges)
    for level, owner_id, slot, day, held, held_since in first.union(*others, all=True) if others else first:
        owner = Level(level), owner_id
        if held_since is None:
            found[owner].append(DayUse(day, slot, int(held)))
        else:
            found[owner] += budget_arithmetic.split_by_day(LiveAllocation(slot, int(held), held_since), now)
    return found


def _use_queries(owners: Collection[Owner], edges: Sequence[date]) -> Iterator[QuerySet[Any, Any]]:
    """Yield queries of (level, owner, slot, day, amount, held since). Live allocations have no day,
    ended ones no `held since`.
    """
    no_day, no_instant = Cast(Value(None), DateField()), Cast(Value(None), DateTimeField())
    amount = DecimalField(max_digits=40, decimal_places=0)
    since, *later = (Value(edge, DateField()) for edge in edges)
    first_day = Case(*(When(day__gte=edge, then=edge) for edge in reversed(later)), default=since)
    for level, column in OWNERS.items():
        ids = [pk for each, pk in owners if each is level]
        if not ids:
            continue
        ended = DaySlots.objects.filter(**{f"{column}__in": ids}, day__gte=since).order_by()
        sums = ended.values(column, "slot_name", first_day=first_day).annotate(sum=Sum("held"))
        yield sums.values_list(Value(level.value), column, "slot_name", "first_day", "sum", no_instant)
        yield allocations.get()(level, ids).values_list(
            Value(level.value), "owner_id", "slot_name", no_day, Cast("amount", amount), "held_since"
        )


def _state(
    budget: Budget,
    first: date,
    end: date,
    day: date,
    uses: Sequence[DayUse],
    prices: Sequence[budget_arithmetic.Price],
) -> BudgetState:
    unit = Unit(budget.unit)
    level, owner_id = budget.owner_key
    return BudgetState(
        id=budget.pk or 0,
        level=level,
        owner_id=owner_id,
        owner=budget.owner_name,
        unit=unit,
        amount=budget.amount,
        spent=budget_arithmetic.spent(unit, uses, prices),
        is_hard=budget.is_hard,
        warn_percent=budget.warn_percent,
        period=Period(budget.period),
        first=first,
        end=end,
        is_current=first <= day < end,
    )


def budget_warning(state: BudgetState) -> str:
    """Return the warning for a budget that is used up or nearly used up; "" for others."""
    if not state.is_current or not state.is_nearly_used_up:
        return ""
    if state.is_used_up:
        return _spent_sentence(state)
    if state.unit is Unit.MONEY:
        sentence = _("The budget of {name} is nearly used up: {left} of {amount} left until {day}.")
    else:
        sentence = _("The budget of {name} is nearly used up: {left} of {amount} GPU-hours left until {day}.")
    left, amount = (
        format_budget_amount(state.unit, budget_arithmetic.round_amount(state.left)),
        format_budget_amount(state.unit, state.amount),
    )
    return sentence.format(name=state.owner, left=left, amount=amount, day=state.last.isoformat())


def format_budget_amount(unit: Unit, amount: Decimal) -> str:
    """Format an amount: money in the currency of the installation, hours as a number."""
    return format_money(amount) if unit is Unit.MONEY else str(amount)


def _spent_sentence(state: BudgetState) -> str:
    if state.unit is Unit.MONEY:
        sentence = _("The budget of {name} is used up: all of {amount}. It holds until {day}.")
    else:
        sentence = _("The budget of {name} is used up: all of {amount} GPU-hours. It holds until {day}.")
    return sentence.format(
        name=state.owner, amount=format_budget_amount(state.unit, state.amount), day=state.last.isoformat()
    )
