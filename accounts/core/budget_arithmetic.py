"""Budget arithmetic: allocated slots per day, their cost, and the rest of a budget. Pure.

Exact: whole microseconds, fractions and decimals; days are UTC. Allocation is amount × time in
`SlotMicroseconds`: base units of a slot (common.values.resources) times microseconds. A slot has
one price per day, the newest that applies; a slot without a price costs nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction

from accounts.core.limits import Level
from common.values.resources import CPU, MEM, MILLI

SlotMicroseconds = int
MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1) // MICROSECOND
GIB = 2**30
CENT = Decimal("0.01")


class Unit(StrEnum):
    """Unit of a budget."""

    MONEY = "money"
    DEVICE_HOURS = "device_hours"  # of accelerators of all kinds together


class Period(StrEnum):
    """Length of a budget's period, after which it starts again."""

    MONTH = "month"
    QUARTER = "quarter"
    TERM = "term"  # fixed first and last day, once


@dataclass(frozen=True, slots=True)
class LiveAllocation:
    """`amount` of a slot, allocated since an instant and still allocated."""

    slot: str
    amount: int
    since: datetime


@dataclass(frozen=True, slots=True)
class DayUse:
    """Allocation of one slot on one day."""

    day: date
    slot: str
    held: SlotMicroseconds


@dataclass(frozen=True, slots=True)
class Price:
    """Price of an hour of one core, GiB or device, from a day on."""

    slot: str
    since: date
    per_hour: Decimal


def period_bounds(
    period: Period, day: date, starts_on: date | None = None, ends_on: date | None = None
) -> tuple[date, date]:
    """Return the period that contains `day` as (first day, day after the last). With `starts_on`
    and `ends_on` (a term) their period, whatever `day` is.
    """
    if starts_on is not None and ends_on is not None:
        return starts_on, min(ends_on, date.max - timedelta(days=1)) + timedelta(days=1)
    months = 3 if period is Period.QUARTER else 1
    first = day.replace(month=(day.month - 1) // months * months + 1, day=1)
    years, month = divmod(first.month - 1 + months, 12)
    return first, date(first.year + years, month + 1, 1)


def split_by_day(holding: LiveAllocation, until: datetime) -> list[DayUse]:
    """Split the allocation up to `until` by UTC day; empty if it began later."""
    at, found = holding.since.astimezone(UTC), []
    end = until.astimezone(UTC)
    while at < end:
        next_day = datetime.combine(at.date() + timedelta(days=1), time(), UTC)
        span = (min(next_day, end) - at) // MICROSECOND
        found.append(DayUse(at.date(), holding.slot, holding.amount * span))
        at = next_day
    return found


def uses_between(uses: Iterable[DayUse], first: date, end: date) -> list[DayUse]:
    """Return the uses on days in [first, end)."""
    return [use for use in uses if first <= use.day < end]


def cost(uses: Iterable[DayUse], prices: Sequence[Price]) -> Fraction:
    """Return the unrounded cost of the uses."""
    by_slot: dict[str, list[Price]] = {}
    for price in sorted(prices, key=lambda each: each.since):
        by_slot.setdefault(price.slot, []).append(price)
    held: Counter[tuple[str, Decimal]] = Counter()  # integers add faster than fractions
    for use in uses:
        held[use.slot, _price_on(by_slot.get(use.slot, ()), use.day)] += use.held
    return sum((_hours(slot, amount) * Fraction(price) for (slot, price), amount in held.items()), Fraction())


def device_hours(uses: Iterable[DayUse]) -> Fraction:
    """Return hours of whole devices."""
    return Fraction(sum(use.held for use in uses if use.slot not in (CPU, MEM)), HOUR * MILLI)


def spent(unit: Unit, uses: Iterable[DayUse], prices: Sequence[Price]) -> Fraction:
    return cost(uses, prices) if unit is Unit.MONEY else device_hours(uses)


def round_amount(amount: Fraction) -> Decimal:
    """Round to the cent or hundredth of an hour, for display only; decisions use the exact value."""
    exact = Decimal(amount.numerator) / Decimal(amount.denominator)
    return exact.quantize(CENT, ROUND_HALF_UP)


def _hours(slot: str, held: SlotMicroseconds) -> Fraction:
    """Convert to hours of one core, GiB or device."""
    return Fraction(held, HOUR * (GIB if slot == MEM else MILLI))


def _price_on(prices: Sequence[Price], day: date) -> Decimal:
    """Return the price on a day, from prices sorted by first day; 0 if none applies."""
    return next((price.per_hour for price in reversed(prices) if price.since <= day), Decimal())


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget with its spending in the current period, or of a past or future term."""

    id: int
    level: Level  # project or user
    owner_id: int
    owner: str  # name of the project, or e-mail of the person
    unit: Unit
    amount: Decimal
    spent: Fraction
    is_hard: bool
    warn_percent: int
    period: Period
    first: date
    end: date  # day after the last
    is_current: bool = True

    @property
    def left(self) -> Fraction:
        return max(Fraction(), Fraction(self.amount) - self.spent)

    @property
    def last(self) -> date:
        return self.end - timedelta(days=1)

    @property
    def warns_at(self) -> Fraction:
        return Fraction(self.amount) * self.warn_percent / 100

    @property
    def is_used_up(self) -> bool:
        return self.spent >= self.amount

    @property
    def is_nearly_used_up(self) -> bool:
        return self.spent >= self.warns_at

    @property
    def refuses(self) -> bool:
        """True if new sessions are refused until the period ends or the budget is raised."""
        return self.is_hard and self.is_used_up and self.is_current
