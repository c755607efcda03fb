"""Creates, changes and deletes budgets and prices."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.budgets.selectors import access_budget, today
from accounts.core.authorization import Action
from accounts.core.budget_arithmetic import CENT, Period, Unit
from accounts.core.limits import Level
from accounts.models import Budget, Price, Project, User
from accounts.policies.service import access_limited
from accounts.selectors import may_do_everything, require_superadmin
from common.actors import Actor
from common.audit import audit_log
from common.db.validation import validate_model
from common.errors import InvalidInput, NotFound
from common.values.resources import is_slot_name
from common.values.text import quoted

LONGEST_TERM = timedelta(days=3653)
COLUMNS = ("unit", "amount", "period", "starts_on", "ends_on", "warn_percent", "is_hard")


@transaction.atomic
def create_budget(  # noqa: PLR0913 -- all by name
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
    """Create a budget for a project or user that the actor may limit. Raises NotFound,
    PermissionDenied, InvalidInput.
    """
    wanted = {
        "unit": unit, "amount": amount, "period": period, "starts_on": starts_on, "ends_on": ends_on,
        "warn_percent": warn_percent, "is_hard": is_hard,
    }  # fmt: skip
    budget = build_budget(actor, level, owner_id, wanted)

    precede_admissions()
    _lock_owner(budget)
    budget.save()
    changes = {"owner": budget.owner_name, **_values(budget)}
    audit_log.record(actor=actor, action="accounts.create_budget", target=budget, changes=changes)
    return budget


@transaction.atomic
def update_budget(*, actor: Actor, budget_id: int, changes: Mapping[str, Any]) -> Budget:
    """Set these COLUMNS; sessions keep running. Raises NotFound, PermissionDenied, InvalidInput."""
    budget = _lock_budget(actor, budget_id)
    before = _values(budget)
    apply_budget_changes(budget, changes)
    budget.is_central = budget.is_central or may_do_everything(actor)

    budget.save(update_fields=[*COLUMNS, "is_central"])
    changed = audit_log.changed(before, _values(budget))
    audit_log.record(actor=actor, action="accounts.update_budget", target=budget, changes=changed)
    return budget


@transaction.atomic
def delete_budget(*, actor: Actor, budget_id: int) -> None:
    """Delete a budget that the actor may change. Raises NotFound, PermissionDenied."""
    budget = _lock_budget(actor, budget_id)

    changes = {"owner": budget.owner_name}
    audit_log.record(actor=actor, action="accounts.delete_budget", target=budget, changes=changes)
    budget.delete()


@transaction.atomic
def set_price(*, actor: Actor, slot_name: str, since: date, per_hour: Decimal) -> Price:
    """Set the price of an hour from a day on. Past hours keep their price, so the earliest day is
    tomorrow. Raises PermissionDenied, InvalidInput.
    """
    require_superadmin(actor)
    if not is_slot_name(slot_name):
        sentence = _("{name} is not the name of a resource. Use cpu, mem or a device name.").format(
            name=quoted(slot_name)
        )
        raise InvalidInput.at("slot_name", sentence)
    _check_future_day(since)
    was = Price.objects.select_for_update().filter(slot_name=slot_name, since=since).first()
    price = was or Price(slot_name=slot_name, since=since)
    before = str(was.per_hour) if was else None
    price.per_hour = per_hour
    validate_model(price)

    price.save()
    changes = {"slot": slot_name, "since": since, "per_hour": [before, str(per_hour)]}
    audit_log.record(actor=actor, action="accounts.set_price", target=price, changes=changes)
    return price


@transaction.atomic
def delete_price(*, actor: Actor, price_id: int) -> None:
    """Delete a price that begins tomorrow or later; the previous price continues. Raises NotFound,
    PermissionDenied, InvalidInput.
    """
    require_superadmin(actor)
    price = Price.objects.select_for_update().filter(pk=price_id).first()
    if price is None:
        raise NotFound(_("There is no such price."))
    _check_future_day(price.since)

    changes = {"slot": price.slot_name, "since": price.since, "per_hour": str(price.per_hour)}
    audit_log.record(actor=actor, action="accounts.delete_price", target=price, changes=changes)
    price.delete()


def build_budget(actor: Actor, level: Level, owner_id: int, wanted: Mapping[str, Any]) -> Budget:
    """Build the unsaved budget of `create_budget`; `wanted` is keyed by COLUMNS. Raises NotFound,
    PermissionDenied, InvalidInput.
    """
    owner = access_limited(actor, level, owner_id)
    if not isinstance(owner, (Project, User)):
        raise InvalidInput(_("Projects and people have budgets."), fields={"level": [_("project or user.")]})
    budget = Budget(
        project=owner if isinstance(owner, Project) else None,
        user=owner if isinstance(owner, User) else None,
        is_central=may_do_everything(actor),
    )
    apply_budget_changes(budget, wanted)
    return budget


def apply_budget_changes(budget: Budget, changes: Mapping[str, Any]) -> None:
    """Apply the changes of `update_budget` without saving. Raises InvalidInput."""
    for column in COLUMNS:
        if column in changes:
            setattr(budget, column, changes[column])
    if budget.period != Period.TERM and "period" in changes:
        budget.starts_on, budget.ends_on = changes.get("starts_on"), changes.get("ends_on")
    _check_days(budget)
    validate_model(budget)
    budget.amount = budget.amount.quantize(CENT)


def _lock_budget(actor: Actor, budget_id: int) -> Budget:
    """Lock and return the budget for a change, before admissions that begin later. Raises NotFound,
    PermissionDenied.
    """
    budget = access_budget(actor, budget_id, Action.LIMIT)
    precede_admissions()
    _lock_owner(budget)
    Budget.objects.select_for_update(of=("self",)).filter(pk=budget_id).first()
    return access_budget(actor, budget_id, Action.LIMIT)


def _lock_owner(budget: Budget) -> None:
    """Lock the budget's owner, so that admissions judged by its budgets and this change wait for
    each other (ADR 8).
    """
    level, owner_id = budget.owner_key
    owners = Project.objects if level is Level.PROJECT else User.objects
    owners.select_for_update(no_key=True).filter(pk=owner_id).first()


def _check_days(budget: Budget) -> None:
    is_term = budget.period == Period.TERM
    if is_term and (budget.starts_on is None or budget.ends_on is None or budget.ends_on < budget.starts_on):
        raise InvalidInput.at("ends_on", _("A term has a first and a last day, in this order."))
    if budget.starts_on and budget.ends_on and budget.ends_on - budget.starts_on > LONGEST_TERM:
        raise InvalidInput.at("ends_on", _("A term is ten years at most."))
    if not is_term and (budget.starts_on or budget.ends_on):
        raise InvalidInput.at("period", _("Only a term has days of its own."))


def _check_future_day(day: date) -> None:
    """Raise InvalidInput unless the day is in the future. A day has one price, so a price from
    today would also change past hours.
    """
    if day <= today():
        raise InvalidInput.at("since", _("What was held keeps its price: begin tomorrow or later (UTC)."))


def _values(budget: Budget) -> dict[str, Any]:
    return {
        column: str(value) if (value := getattr(budget, column)) is not None else None for column in COLUMNS
    }
