"""The arithmetic of budgets: how long slots were held, day by day, what that costs, and what is left of a budget. Pure and exact:
whole microseconds, fractions and decimals, days of UTC.

What is held is amount × time in `SlotMicroseconds`: base units of a slot (common.values.resources) times microseconds. A day has one
price for a slot, the newest that holds then; a slot without one costs nothing.
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
    """What a budget counts."""

    MONEY = "money"
    DEVICE_HOURS = "device_hours"  # of accelerators, of all kinds together


class Period(StrEnum):
    """How long a budget holds before it begins anew."""

    MONTH = "month"
    QUARTER = "quarter"
    TERM = "term"  # from one day to another, once


@dataclass(frozen=True, slots=True)
class Holding:
    """`amount` of a slot, held since an instant and still so."""

    slot: str
    amount: int
    since: datetime


@dataclass(frozen=True, slots=True)
class DayUse:
    """What of a slot was held on one day."""

    day: date
    slot: str
    held: SlotMicroseconds


@dataclass(frozen=True, slots=True)
class Price:
    """Of an hour of one core, GiB or device, from a day on."""

    slot: str
    since: date
    per_hour: Decimal


def bounds(
    period: Period, day: date, starts_on: date | None = None, ends_on: date | None = None
) -> tuple[date, date]:
    """The period that `day` is in: its first day, and the first that is not in it any more. A term has its own, whichever day
    it is."""
    if starts_on is not None and ends_on is not None:
        return starts_on, min(ends_on, date.max - timedelta(days=1)) + timedelta(days=1)
    months = 3 if period is Period.QUARTER else 1
    first = day.replace(month=(day.month - 1) // months * months + 1, day=1)
    years, month = divmod(first.month - 1 + months, 12)
    return first, date(first.year + years, month + 1, 1)


def split_by_day(holding: Holding, until: datetime) -> list[DayUse]:
    """What was held up to `until`, for each day of UTC on which it was; nothing where it began later."""
    at, found = holding.since.astimezone(UTC), []
    end = until.astimezone(UTC)
    while at < end:
        next_day = datetime.combine(at.date() + timedelta(days=1), time(), UTC)
        span = (min(next_day, end) - at) // MICROSECOND
        found.append(DayUse(at.date(), holding.slot, holding.amount * span))
        at = next_day
    return found


def within(uses: Iterable[DayUse], first: date, end: date) -> list[DayUse]:
    """Those of the days from `first` on, before `end`."""
    return [use for use in uses if first <= use.day < end]


def cost(uses: Iterable[DayUse], prices: Sequence[Price]) -> Fraction:
    """What they cost, not rounded."""
    by_slot: dict[str, list[Price]] = {}
    for price in sorted(prices, key=lambda each: each.since):
        by_slot.setdefault(price.slot, []).append(price)
    held: Counter[tuple[str, Decimal]] = Counter()  # whole numbers are quicker to add than fractions
    for use in uses:
        held[use.slot, _price_on(by_slot.get(use.slot, ()), use.day)] += use.held
    return sum((_hours(slot, amount) * Fraction(price) for (slot, price), amount in held.items()), Fraction())


def device_hours(uses: Iterable[DayUse]) -> Fraction:
    """Hours of whole devices."""
    return Fraction(sum(use.held for use in uses if use.slot not in (CPU, MEM)), HOUR * MILLI)


def spent(unit: Unit, uses: Iterable[DayUse], prices: Sequence[Price]) -> Fraction:
    return cost(uses, prices) if unit is Unit.MONEY else device_hours(uses)


def rounded(amount: Fraction) -> Decimal:
    """To the cent, or hundredth of an hour, for people; decisions are made before."""
    exact = Decimal(amount.numerator) / Decimal(amount.denominator)
    return exact.quantize(CENT, ROUND_HALF_UP)


def _hours(slot: str, held: SlotMicroseconds) -> Fraction:
    """Hours of one core, GiB or device."""
    return Fraction(held, HOUR * (GIB if slot == MEM else MILLI))


def _price_on(prices: Sequence[Price], day: date) -> Decimal:
    """Of prices that are sorted by their first day."""
    return next((price.per_hour for price in reversed(prices) if price.since <= day), Decimal())


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget in its present period; a term in its own, which may be over or yet to come."""

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
    end: date  # the first day that is not in it
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
        """Nothing new begins until the period ends or the budget is raised."""
        return self.is_hard and self.is_used_up and self.is_current
