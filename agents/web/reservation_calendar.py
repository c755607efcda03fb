"""Calendar of the reservations of a resource group: days as columns, agents as rows. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from django.utils.translation import gettext_noop

from agents.reservations.selectors import CalendarEntry

SHOWN_ROWS = 60
SHOWN_NAMES = 3
DAY = timedelta(days=1)
SATURDAY = 5
PERCENT_OF_LETTER, PERCENT_BESIDE_NAME = 1.0, 2.5  # on the width of a laptop
FURTHEST_DAYS = 800  # further than reservations are made


class View(StrEnum):
    WEEK = "week"
    MONTH = "month"


VIEW_NAMES = {View.WEEK: gettext_noop("Week"), View.MONTH: gettext_noop("Month")}


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `first` to before `end`, in the time zone `zone`."""

    view: View
    first: date
    end: date
    zone: tzinfo

    @property
    def begins_at(self) -> datetime:
        return _midnight(self.first, self.zone)

    @property
    def ends_at(self) -> datetime:
        return _midnight(self.end, self.zone)

    @property
    def last(self) -> date:
        return self.end - DAY

    @property
    def before(self) -> date:
        """A day of the previous span."""
        return self.first - DAY

    def share(self, instant: datetime) -> float:
        """Return the position of an instant in the span in percent: below 0 before it, above 100
        after it.
        """
        return (instant - self.begins_at) / (self.ends_at - self.begins_at) * 100


@dataclass(frozen=True, slots=True)
class Day:
    date: date
    left: str
    width: str
    is_today: bool
    is_free: bool  # weekend


@dataclass(frozen=True, slots=True)
class Bar:
    """One reservation in a row: left edge and width in percent of the row; first and last minute as
    text. A name that does not fit is shown beside the agents.
    """

    entry: CalendarEntry
    left: str
    width: str
    begins: str
    ends: str
    is_over: bool
    has_name: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Agents with equal reservations: the first names, and their number. Without bars: all agents
    without a reservation.
    """

    names: Sequence[str]
    count: int
    bars: Sequence[Bar]

    @property
    def more(self) -> int:
        return self.count - len(self.names)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Calendar page. `now`: present time in percent, "" outside the span; `unshown`: number of
    reserved agents beyond the rows.
    """

    span: Span
    days: Sequence[Day]
    rows: Sequence[Row]
    now: str
    unshown: int

    @property
    def is_empty(self) -> bool:
        return not any(row.bars for row in self.rows)


def span_of(view: str, day: str, zone: tzinfo, now: datetime) -> Span:
    """Return the week or month of `day`, e.g. "2026-05-31"; today if it is invalid or too far away."""
    today = now.astimezone(zone).date()
    try:
        chosen = date.fromisoformat(day)
    except ValueError:
        chosen = today
    if abs(chosen - today).days > FURTHEST_DAYS:
        chosen = today
    if view == View.MONTH:
        first = chosen.replace(day=1)
        return Span(View.MONTH, first, (first + 31 * DAY).replace(day=1), zone)
    first = chosen - chosen.weekday() * DAY
    return Span(View.WEEK, first, first + 7 * DAY, zone)


def calendar_of(
    span: Span, entries: Iterable[CalendarEntry], machines: Sequence[str], now: datetime
) -> Calendar:
    """Make the calendar. `entries` by start, possibly outside the span; `machines`: names of all
    agents of the group.
    """
    bars = {
        each.id: _bar(span, each, now)
        for each in entries
        if each.starts_at < span.ends_at and each.ends_at > span.begins_at
    }
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, ids in _by_machine([bar.entry for bar in bars.values()]).items():
        alike.setdefault(tuple(ids), []).append(name)
    order = {reservation_id: place for place, reservation_id in enumerate(bars)}
    by_start = sorted(alike.items(), key=lambda item: ([order[each] for each in item[0]], item[1]))
    rows = [
        Row(sorted(names)[:SHOWN_NAMES], len(names), [bars[each] for each in ids]) for ids, names in by_start
    ]
    unshown = sum(row.count for row in rows[SHOWN_ROWS:])
    free = sorted(set(machines) - {name for names in alike.values() for name in names})
    shown = rows[:SHOWN_ROWS] + ([Row(free[:SHOWN_NAMES], len(free), ())] if free else [])
    at = span.share(now)
    return Calendar(span, _days(span, now), shown, _percent(at) if 0 <= at < 100 else "", unshown)


def _days(span: Span, now: datetime) -> list[Day]:
    today = now.astimezone(span.zone).date()
    dates = [span.first + number * DAY for number in range((span.end - span.first).days)]
    lefts = [span.share(_midnight(each, span.zone)) for each in dates]
    return [
        Day(each, _percent(left), _percent(right - left), each == today, each.weekday() >= SATURDAY)
        for each, left, right in zip(dates, lefts, [*lefts[1:], 100.0], strict=True)
    ]


def _bar(span: Span, entry: CalendarEntry, now: datetime) -> Bar:
    left, right = max(0.0, span.share(entry.starts_at)), min(100.0, span.share(entry.ends_at))
    begins, ends = (
        f"{each.astimezone(span.zone):%Y-%m-%d %H:%M}" for each in (entry.starts_at, entry.ends_at)
    )
    return Bar(
        entry,
        _percent(left),
        _percent(right - left),
        begins,
        ends,
        entry.ends_at <= now,
        right - left >= len(entry.name) * PERCENT_OF_LETTER + PERCENT_BESIDE_NAME,
    )


def _by_machine(entries: Iterable[CalendarEntry]) -> dict[str, list[int]]:
    """Return the reservation ids of each agent, by start."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        for name in entry.agents:
            found.setdefault(name, []).append(entry.id)
    return found


def _midnight(day: date, zone: tzinfo) -> datetime:
    """Return midnight in UTC, so that differences are right on days of clock changes."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _percent(share: float) -> str:
    """Format for SVG and style attributes, independent of language."""
    return f"{share:.3f}%"
