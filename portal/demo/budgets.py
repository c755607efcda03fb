"""Sample budgets and daily usage for `manage.py seed_demo_load`."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from accounts.budgets.selectors import today
from accounts.core.budget_arithmetic import GIB, HOUR, Period, Unit
from accounts.models import Budget, DaySlots, Price, Project, User
from common.values.resources import CPU, MEM

DAYS, EACH = 45, 25
HELD = {CPU: 4000 * 8 * HOUR, MEM: 16 * GIB * 8 * HOUR, "cuda": 1000 * 8 * HOUR}
PRICES = {CPU: "0.04", MEM: "0.005", "cuda": "1.85"}


def make_budgets(projects: Sequence[Project], people: Sequence[User]) -> None:
    """Create a budget for each project and each 25th user; those users have usage on every day."""
    first = today() - timedelta(days=DAYS)
    Price.objects.bulk_create(
        (Price(slot_name=slot, since=first, per_hour=Decimal(price)) for slot, price in PRICES.items()),
        ignore_conflicts=True,
    )
    busy = people[::EACH]
    hours, money = Unit.DEVICE_HOURS.value, Unit.MONEY.value
    Budget.objects.bulk_create(
        [
            *(Budget(project=each, unit=hours, amount=500, period=Period.MONTH.value) for each in projects),
            *(
                Budget(user=each, unit=money, amount=2000, period=Period.QUARTER.value, is_hard=True)
                for each in busy
            ),
        ]
    )
    DaySlots.objects.bulk_create(
        (
            DaySlots(
                day=first + timedelta(days=day),
                project_id=projects[number % len(projects)].pk,
                user_id=person.pk,
                slot_name=slot,
                held=held,
            )
            for number, person in enumerate(busy)
            for day in range(DAYS + 1)
            for slot, held in HELD.items()
        ),
        batch_size=2000,
    )
