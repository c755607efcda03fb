"""Laws of spending: nothing is lost or counted twice, and periods are contiguous."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from accounts.core.budget_arithmetic import (
    MICROSECOND,
    DayUse,
    LiveAllocation,
    Period,
    Price,
    cost,
    period_bounds,
    split_by_day,
    uses_between,
)

instants = st.integers(0, 4000 * 24 * 3600 * 10**6).map(
    lambda count: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(microseconds=count)
)
spans = st.timedeltas(timedelta(0), timedelta(days=200))
days = st.dates(date(2020, 1, 1), date(2030, 12, 31))
amounts = st.integers(1, 2**47 - 1)
prices = st.lists(
    st.builds(
        Price, slot=st.just("cpu"), since=days, per_hour=st.decimals(0, 1000, places=6, allow_nan=False)
    ),
    max_size=5,
    unique_by=lambda price: price.since,
)


def total(uses: list[DayUse]) -> int:
    return sum(use.held for use in uses)


@given(instants, spans, amounts)
def test_days_add_up_to_total_use(since: datetime, span: timedelta, amount: int) -> None:
    uses = split_by_day(LiveAllocation("cpu", amount, since), since + span)
    assert total(uses) == amount * (span // MICROSECOND)
    assert len({use.day for use in uses}) == len(uses)


@given(instants, spans, spans, amounts, prices)
def test_it_does_not_matter_where_time_is_cut(
    since: datetime, one: timedelta, other: timedelta, amount: int, known: list[Price]
) -> None:
    whole = split_by_day(LiveAllocation("cpu", amount, since), since + one + other)
    parts = split_by_day(LiveAllocation("cpu", amount, since), since + one)
    parts += split_by_day(LiveAllocation("cpu", amount, since + one), since + one + other)
    assert total(whole) == total(parts)
    assert cost(whole, known) == cost(parts, known)


@given(instants, spans, amounts, st.sampled_from([Period.MONTH, Period.QUARTER]))
def test_every_day_is_in_one_period_and_periods_follow_each_other(
    since: datetime, span: timedelta, amount: int, period: Period
) -> None:
    uses = split_by_day(LiveAllocation("cpu", amount, since), since + span)
    day, counted = since.date(), 0
    while day <= (since + span).date():
        found = period_bounds(period, day)
        assert found is not None
        first, end = found
        assert first <= day < end
        assert period_bounds(period, end - timedelta(days=1)) == found
        assert period_bounds(period, end) != found
        counted += total(uses_between(uses, first, end))
        day = end
    assert counted == total(uses)


@given(st.lists(st.tuples(days, amounts), max_size=20), prices, days)
def test_a_new_price_changes_no_day_before_it(
    held: list[tuple[date, int]], known: list[Price], since: date
) -> None:
    uses = [DayUse(day, "cpu", amount) for day, amount in held]
    older = [price for price in known if price.since < since]
    newer = [*older, Price("cpu", since, Decimal(7))]
    before = [use for use in uses if use.day < since]
    assert cost(before, newer) == cost(before, older)
    assert cost(uses, newer) - cost(before, newer) == 7 * sum(
        (Fraction(use.held, 3_600_000_000_000) for use in uses if use.day >= since), Fraction()
    )
