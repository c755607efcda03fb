"""Reads and writes of budgets and prices."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts import spending
from accounts.budgets import Budget, DaySlots, Price
from accounts.limiting import access_limited
from accounts.models import Project, User
from accounts.quota import Level
from accounts.selectors import (
    known_projects,
    may_do_everything,
    refusal_about,
    require_superadmin,
    visible_users,
)
from accounts.spending import BudgetState, DayUse, Holding, Period, Unit
from common import audit, clock
from common.actors import Actor
from common.errors import InvalidInput, NotFound
from common.slots import is_slot_name
from common.texts import quoted

Owner = tuple[Level, int]  # a project or a person
# What live sessions of these owners hold now: (owner, holding), for both where both are asked for.
Holders = Callable[[Collection[Owner]], Iterable[tuple[Owner, Holding]]]
_holders: list[Holders] = []
LONGEST_TERM = timedelta(days=3653)
UNITS = {Unit.MONEY: gettext_noop("Money"), Unit.DEVICE_HOURS: gettext_noop("Accelerator hours")}
PERIODS = {
    Period.MONTH: gettext_noop("Month"),
    Period.QUARTER: gettext_noop("Quarter"),
    Period.TERM: gettext_noop("Term"),
}


def register(holders: Holders) -> None:
    """Have `holders` asked what live sessions hold. Called from AppConfig.ready of the room that has them."""
    _holders[:] = [holders]


def budget_states(owners: Collection[Owner], at: datetime | None = None) -> list[BudgetState]:
    """The budgets of these projects and people that hold now, with what is spent of each up to now; running sessions count.
    One query where there is none, else at most 5."""
    return states_of(_budgets_of(owners).select_related("project", "user").order_by("pk"), at)


def states_of(budgets: Iterable[Budget], at: datetime | None = None) -> list[BudgetState]:
    """The same for these budgets, with their owners; those whose term is not now are left out."""
    now, budgets = at or clock.now(), list(budgets)
    periods = {budget.pk: _bounds(budget, now.astimezone(UTC).date()) for budget in budgets}
    present = [(budget, bounds) for budget in budgets if (bounds := periods[budget.pk]) is not None]
    if not present:
        return []
    wanted = {_owner_of(budget) for budget, _bounds in present}
    uses = _uses(wanted, since=min(first for _budget, (first, _end) in present), now=now)
    prices = [spending.Price(*row) for row in Price.objects.values_list("slot_name", "since", "per_hour")]
    return [
        _state(budget, first, end, spending.within(uses[_owner_of(budget)], first, end), prices)
        for budget, (first, end) in present
    ]


def refusals(states: Iterable[BudgetState]) -> list[str]:
    """A sentence for each budget that refuses new sessions."""
    return [_sentence(state) for state in states if state.refuses]


def visible_budgets(actor: Actor) -> QuerySet[Budget]:
    """Of oneself, of the projects that one knows, and of the people whom one sees."""
    is_seen = Q(project__in=known_projects(actor)) | Q(user__in=visible_users(actor))
    return Budget.objects.select_related("project__domain", "user__domain").filter(is_seen).order_by("pk")


@transaction.atomic
def create_budget(
    *,
    actor: Actor,
    level: Level,
    owner_id: int,
    unit: Unit,
    amount: Decimal,
    period: Period,
    starts_on: date | None = None,
    ends_on: date | None = None,
    warn_percent: int = 80,
    is_hard: bool = False,
) -> Budget:
    """For a project or a person whom the actor may limit. Raises NotFound, PermissionDenied, InvalidInput."""
    owner = access_limited(actor, level, owner_id)
    if not isinstance(owner, (Project, User)):
        raise InvalidInput(_("Projects and people have budgets."), fields={"level": [_("project or user.")]})
    budget = Budget(
        project=owner if isinstance(owner, Project) else None,
        user=owner if isinstance(owner, User) else None,
        unit=unit.value,
        amount=amount,
        period=period.value,
        starts_on=starts_on,
        ends_on=ends_on,
        warn_percent=warn_percent,
        is_hard=is_hard,
        is_central=may_do_everything(actor),
    )
    _check_days(budget)
    _check(budget)

    budget.save()
    changes = {"owner": str(owner), "amount": str(amount), "unit": unit.value, "is_hard": is_hard}
    audit.record(actor=actor, action="accounts.create_budget", target=budget, changes=changes)
    return budget


@transaction.atomic
def delete_budget(*, actor: Actor, budget_id: int) -> None:
    """Raises NotFound, PermissionDenied."""
    Budget.objects.select_for_update(of=("self",)).filter(pk=budget_id).first()
    budget = visible_budgets(actor).filter(pk=budget_id).first()
    if budget is None:
        raise NotFound(_("There is no such budget among those that you may see."))
    access_limited(actor, *_owner_of(budget))
    if budget.is_central and not may_do_everything(actor):
        raise refusal_about(
            _("A superadmin set the budget of {name}, so superadmins change it."), _name(budget)
        )

    audit.record(
        actor=actor, action="accounts.delete_budget", target=budget, changes={"owner": _name(budget)}
    )
    budget.delete()


@transaction.atomic
def set_price(*, actor: Actor, slot_name: str, since: date, per_hour: Decimal) -> Price:
    """What an hour costs from that day on. Days that are over keep their price. Raises PermissionDenied, InvalidInput."""
    require_superadmin(actor)
    if not is_slot_name(slot_name):
        sentence = _("{name} is not the name of a resource. Use cpu, mem or a device name.").format(
            name=quoted(slot_name)
        )
        raise InvalidInput(sentence, fields={"slot_name": [sentence]})
    if since < clock.now().astimezone(UTC).date():
        sentence = _("The past keeps its prices: begin today or later (UTC).")
        raise InvalidInput(sentence, fields={"since": [sentence]})
    was = Price.objects.select_for_update().filter(slot_name=slot_name, since=since).first()
    price = was or Price(slot_name=slot_name, since=since)
    before = str(was.per_hour) if was else None
    price.per_hour = per_hour
    _check(price)

    price.save()
    changes = {"slot": slot_name, "since": since, "per_hour": [before, str(per_hour)]}
    audit.record(actor=actor, action="accounts.set_price", target=price, changes=changes)
    return price


def _budgets_of(owners: Collection[Owner]) -> QuerySet[Budget]:
    ids = {level: [pk for at, pk in owners if at is level] for level in (Level.PROJECT, Level.USER)}
    return Budget.objects.filter(Q(project_id__in=ids[Level.PROJECT]) | Q(user_id__in=ids[Level.USER]))


def _uses(owners: Collection[Owner], *, since: date, now: datetime) -> dict[Owner, list[DayUse]]:
    """From the ledger of what has ended, and from what is held now."""
    found: dict[Owner, list[DayUse]] = {owner: [] for owner in owners}
    for level, column in ((Level.PROJECT, "project_id"), (Level.USER, "user_id")):
        ids = [pk for at, pk in owners if at is level]
        ended = (
            DaySlots.objects.filter(**{f"{column}__in": ids}, day__gte=since)
            if ids
            else DaySlots.objects.none()
        )
        rows = ended.values_list(column, "day", "slot_name").annotate(sum=Sum("held"))
        for pk, day, slot, held in rows:
            found[level, pk].append(DayUse(day, slot, int(held)))
    for holders in _holders:
        for owner, holding in holders(owners):
            found[owner] += spending.split_by_day(holding, now)
    return found


def _state(
    budget: Budget, first: date, end: date, uses: Sequence[DayUse], prices: Sequence[spending.Price]
) -> BudgetState:
    unit = Unit(budget.unit)
    level, owner_id = _owner_of(budget)
    return BudgetState(
        id=budget.pk,
        level=level,
        owner_id=owner_id,
        owner=_name(budget),
        unit=unit,
        amount=budget.amount,
        spent=spending.spent(unit, uses, prices),
        is_hard=budget.is_hard,
        warn_percent=budget.warn_percent,
        first=first,
        end=end,
    )


def _sentence(state: BudgetState) -> str:
    if state.unit is Unit.MONEY:
        sentence = _("The budget of {name} is used up: all of {amount}. It holds until {day}.")
    else:
        sentence = _(
            "The budget of {name} is used up: all of {amount} accelerator hours. It holds until {day}."
        )
    last_day = state.end - timedelta(days=1)
    return sentence.format(name=state.owner, amount=state.amount, day=last_day.isoformat())


def _bounds(budget: Budget, day: date) -> tuple[date, date] | None:
    return spending.bounds(Period(budget.period), day, budget.starts_on, budget.ends_on)


def _owner_of(budget: Budget) -> Owner:
    if budget.project_id is not None:
        return Level.PROJECT, budget.project_id
    assert budget.user_id is not None
    return Level.USER, budget.user_id


def _name(budget: Budget) -> str:
    return budget.project.name if budget.project else str(budget.user)


def _check_days(budget: Budget) -> None:
    is_term = budget.period == Period.TERM
    if is_term and (budget.starts_on is None or budget.ends_on is None or budget.ends_on < budget.starts_on):
        sentence = _("A term has a first and a last day, in this order.")
        raise InvalidInput(sentence, fields={"ends_on": [sentence]})
    if budget.starts_on and budget.ends_on and budget.ends_on - budget.starts_on > LONGEST_TERM:
        sentence = _("A term is ten years at most.")
        raise InvalidInput(sentence, fields={"ends_on": [sentence]})
    if not is_term and (budget.starts_on or budget.ends_on):
        sentence = _("Only a term has days of its own.")
        raise InvalidInput(sentence, fields={"period": [sentence]})


def _check(row: Budget | Price) -> None:
    try:
        row.full_clean()
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error
