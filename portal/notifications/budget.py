"""Notifications of budgets that are nearly or fully used up."""

from collections.abc import Collection
from datetime import UTC, datetime, time

from accounts.budgets.selectors import affected_user_ids, read_budget_states, today
from accounts.core.budget_arithmetic import BudgetState, Unit, round_amount
from accounts.models import Budget, period_contains
from portal.models import ToldNotice
from portal.notifications.catalogue import Code
from portal.notifications.service import notify

AT_ONCE = 200
NEARLY_SPENT = {Unit.MONEY: Code.MONEY_NEARLY_SPENT, Unit.DEVICE_HOURS: Code.HOURS_NEARLY_SPENT}
SPENT = {Unit.MONEY: Code.MONEY_SPENT, Unit.DEVICE_HOURS: Code.HOURS_SPENT}


def notify_of_budgets() -> None:
    """Notify the user, or all of the project, once per period that a budget is nearly used up, and
    once that a hard budget refuses new sessions; again after a change of its amount. Safe to run at
    any time, twice or late.
    """
    current = Budget.objects.filter(period_contains(today())).select_related("project", "user").order_by("pk")
    last = 0
    while budgets := list(current.filter(pk__gt=last)[:AT_ONCE]):
        last = budgets[-1].pk
        _notify_of([state for state in read_budget_states(budgets) if state.is_nearly_used_up])


def _notify_of(states: Collection[BudgetState]) -> None:
    """Notify all users bound by these budgets. 2 queries if all have been notified."""
    bound = affected_user_ids({(state.level, state.owner_id) for state in states})
    happenings = {state.id: _happening(state) for state in states}
    sent = ToldNotice.objects.filter(happening__in=happenings.values())
    notified = set(sent.values_list("person_id", "happening"))
    for state in states:
        for person_id in bound[state.level, state.owner_id]:
            if (person_id, happenings[state.id]) not in notified:
                _notify(person_id, state, happenings[state.id])


def _notify(person_id: int, state: BudgetState, happening: str) -> None:
    notify(
        person_id=person_id,
        code=(SPENT if state.refuses else NEARLY_SPENT)[state.unit],
        happening=happening,
        arguments={
            "name": state.owner,
            "left": str(round_amount(state.left)),
            "amount": str(state.amount),
            "day": state.last.isoformat(),
        },
        again_until=datetime.combine(state.end, time(), UTC),
    )


def _happening(state: BudgetState) -> str:
    word = "refuses" if state.refuses else "warns"
    return f"budget-{word}:{state.id}:{state.first.isoformat()}:{state.amount}"
