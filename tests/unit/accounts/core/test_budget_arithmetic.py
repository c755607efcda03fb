"""Budgets: cost of hours, current period, and refusals."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from accounts.core.budget_arithmetic import (
    HOUR,
    BudgetState,
    DayUse,
    LiveAllocation,
    Period,
    Price,
    Unit,
    cost,
    device_hours,
    period_bounds,
    round_amount,
    spent,
    split_by_day,
)
from accounts.core.limits import Level

DAY = date(2026, 3, 31)


def state(used: str, *, is_hard: bool = True) -> BudgetState:
    return BudgetState(
        1, Level.USER, 1, "ada", Unit.MONEY, Decimal(100), Fraction(used), is_hard, 80, Period.MONTH, DAY, DAY,
    )  # fmt: skip


def test_each_unit_has_its_price() -> None:
    uses = [
        DayUse(DAY, "cpu", 2000 * HOUR),
        DayUse(DAY, "mem", 4 * 2**30 * HOUR),
        DayUse(DAY, "cuda", 500 * HOUR),
        DayUse(DAY, "rocm", 1000 * HOUR),
    ]
    prices = [
        Price("cpu", DAY, Decimal("0.05")),
        Price("mem", DAY, Decimal("0.01")),
        Price("cuda", DAY, Decimal(2)),
    ]
    assert cost(uses, prices) == Fraction("1.14")
    assert device_hours(uses) == spent(Unit.DEVICE_HOURS, uses, prices) == Fraction("1.5")
    assert spent(Unit.MONEY, uses, ()) == 0
    assert round_amount(Fraction(2, 3)) == Decimal("0.67")


@pytest.mark.parametrize(
    ("period", "day", "first", "end"),
    [
        (Period.MONTH, date(2026, 12, 31), date(2026, 12, 1), date(2027, 1, 1)),
        (Period.MONTH, date(2028, 2, 29), date(2028, 2, 1), date(2028, 3, 1)),
        (Period.QUARTER, date(2026, 12, 31), date(2026, 10, 1), date(2027, 1, 1)),
        (Period.QUARTER, date(2026, 5, 31), date(2026, 4, 1), date(2026, 7, 1)),
    ],
)
def test_periods_begin_with_a_month(period: Period, day: date, first: date, end: date) -> None:
    assert period_bounds(period, day) == (first, end)


def test_a_term_holds_from_its_first_to_its_last_day() -> None:
    first, last = date(2026, 3, 1), date(2026, 8, 31)
    for day in (first, last):
        assert period_bounds(Period.TERM, day, first, last) == (first, date(2026, 9, 1))
    for day in (first - timedelta(days=1), last + timedelta(days=1)):
        assert period_bounds(Period.TERM, day, first, last) == (first, date(2026, 9, 1)), (
            "over or yet to come"
        )


def test_a_day_has_the_newest_price_that_holds_then() -> None:
    days = [DAY - timedelta(days=1), DAY, DAY + timedelta(days=1)]
    uses = [DayUse(day, "cpu", 1000 * HOUR) for day in days]
    prices = [Price("cpu", days[2], Decimal("0.3")), Price("cpu", days[1], Decimal("0.1"))]
    assert cost(uses, prices) == Fraction("0.4"), "without a price, the first day costs nothing"


def test_what_runs_over_midnight_is_of_both_days() -> None:
    since = datetime(2026, 3, 31, 23, 0, tzinfo=UTC)
    uses = split_by_day(LiveAllocation("cpu", 1000, since), since + timedelta(hours=3))
    assert uses == [DayUse(DAY, "cpu", 1000 * HOUR), DayUse(date(2026, 4, 1), "cpu", 2000 * HOUR)]
    assert split_by_day(LiveAllocation("cpu", 1, since), since - timedelta(hours=1)) == []


def test_a_budget_warns_before_it_refuses_and_a_soft_one_never_refuses() -> None:
    assert [
        (each.is_nearly_used_up, each.is_used_up, each.refuses, each.left)
        for each in (state("79.99"), state("80"), state("100"), state("100", is_hard=False), state("120"))
    ] == [
        (False, False, False, Fraction("20.01")),
        (True, False, False, 20),
        (True, True, True, 0),
        (True, True, False, 0),
        (True, True, True, 0),
    ]
    over = replace(state("100"), is_current=False)
    assert not over.refuses
    assert (over.warns_at, over.last) == (80, DAY - timedelta(days=1))
