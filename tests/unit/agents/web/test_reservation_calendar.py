"""Days and entries of the calendar of reservations."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from agents.reservations.selectors import CalendarEntry
from agents.web.reservation_calendar import SHOWN_ROWS, Calendar, Span, View, calendar_of, span_of

NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)  # a Wednesday
DAY = timedelta(days=1)
SEOUL = ZoneInfo("Asia/Seoul")
BERLIN = ZoneInfo("Europe/Berlin")


def entry(key: int, begins: datetime, lasts: timedelta, *agents: str) -> CalendarEntry:
    return CalendarEntry(
        id=key, name=f"R{key}", reason="", starts_at=begins, ends_at=begins + lasts, level="", grantee="",
        agents=list(agents), is_open=begins <= NOW, is_known=True,
    )  # fmt: skip


def week() -> Span:
    return span_of("week", "", UTC, NOW)


def drawn(*entries: CalendarEntry, machines: tuple[str, ...] = ("a", "b", "c")) -> Calendar:
    return calendar_of(week(), entries, machines, NOW)


@pytest.mark.parametrize(
    ("view", "day", "first", "end"),
    [
        ("week", "", date(2026, 5, 11), date(2026, 5, 18)),
        ("week", "2026-05-17", date(2026, 5, 11), date(2026, 5, 18)),
        ("week", "2026-05-18", date(2026, 5, 18), date(2026, 5, 25)),
        ("month", "", date(2026, 5, 1), date(2026, 6, 1)),
        ("month", "2026-12-31", date(2026, 12, 1), date(2027, 1, 1)),
        ("month", "2028-02-29", date(2028, 2, 1), date(2028, 3, 1)),
        ("fortnight", "soon", date(2026, 5, 11), date(2026, 5, 18)),
        ("week", "9999-12-31", date(2026, 5, 11), date(2026, 5, 18)),
        ("month", "0001-01-01", date(2026, 5, 1), date(2026, 6, 1)),
    ],
)
def test_a_span_is_the_week_or_month_of_a_day(view: str, day: str, first: date, end: date) -> None:
    span = span_of(view, day, UTC, NOW)
    assert (span.first, span.end) == (first, end)
    assert span.last == end - DAY
    assert span_of(view, span.before.isoformat(), UTC, NOW).end == first


def test_days_are_those_of_the_readers_zone() -> None:
    late = datetime(2026, 5, 17, 20, tzinfo=UTC)  # Monday in Seoul
    assert span_of("week", "", SEOUL, late).first == date(2026, 5, 18)
    assert span_of("week", "", SEOUL, late).begins_at == datetime(2026, 5, 17, 15, tzinfo=UTC)


def test_days_on_which_clocks_change_are_as_long_as_they_are() -> None:
    span = span_of("week", "2026-03-29", BERLIN, datetime(2026, 3, 29, 12, tzinfo=UTC))
    assert span.ends_at - span.begins_at == timedelta(hours=167)
    sunday = calendar_of(span, (), ("a",), NOW).days[-1]
    assert float(sunday.width.rstrip("%")) == pytest.approx(23 / 167 * 100, abs=0.001)


def test_a_bar_lies_where_its_time_is_and_ends_with_the_span() -> None:
    monday = week().begins_at
    [row, _free] = drawn(
        entry(1, monday - DAY, 2 * DAY, "a"), entry(2, monday + 3 * DAY, DAY, "a"), entry(3, monday + 6 * DAY, 9 * DAY, "a")
    ).rows  # fmt: skip
    assert [(bar.left, bar.width) for bar in row.bars] == [
        ("0.000%", "14.286%"),
        ("42.857%", "14.286%"),
        ("85.714%", "14.286%"),
    ]
    assert [bar.is_over for bar in row.bars] == [True, False, False]
    assert all(bar.has_name for bar in row.bars)
    assert (row.bars[1].begins, row.bars[1].ends) == ("2026-05-14 00:00", "2026-05-15 00:00")


def test_machines_that_are_reserved_alike_are_one_row_and_the_others_the_last() -> None:
    monday = week().begins_at
    names = tuple(f"n{number}" for number in range(8))
    rows = drawn(
        entry(1, monday, DAY, "n4", "n5", "n6", "n7"), entry(2, monday + DAY, DAY, "n0", "n4"), machines=names
    ).rows
    assert [(list(row.names), row.count, row.more, [bar.entry.id for bar in row.bars]) for row in rows] == [
        (["n5", "n6", "n7"], 3, 0, [1]),
        (["n4"], 1, 0, [1, 2]),
        (["n0"], 1, 0, [2]),
        (["n1", "n2", "n3"], 3, 0, []),
    ]


def test_what_lies_outside_of_the_span_is_not_in_it() -> None:
    monday = week().begins_at
    calendar = drawn(entry(1, monday - DAY, DAY, "a"), entry(2, monday + 7 * DAY, DAY, "b"))
    assert calendar.is_empty
    [row] = calendar.rows
    assert (row.count, list(row.bars)) == (3, [])


def test_the_present_and_today_are_marked_where_they_are_shown() -> None:
    calendar = drawn()
    assert calendar.now == "35.714%"
    assert [day.date.day for day in calendar.days if day.is_today] == [13]
    assert [day.date.day for day in calendar.days if day.is_free] == [16, 17]
    later = calendar_of(span_of("week", "2026-06-01", UTC, NOW), (), ("a",), NOW)
    assert (later.now, any(day.is_today for day in later.days)) == ("", False)


def test_a_month_has_all_of_its_days() -> None:
    calendar = calendar_of(span_of(View.MONTH, "2026-02-01", UTC, NOW), (), (), NOW)
    assert [day.date.day for day in calendar.days] == list(range(1, 29))
    assert calendar.rows == []


def test_of_very_many_rows_the_rest_is_counted() -> None:
    monday = week().begins_at
    many = [entry(number, monday, DAY, f"n{number:03}") for number in range(SHOWN_ROWS + 5)]
    calendar = drawn(*many, machines=tuple(f"n{number:03}" for number in range(SHOWN_ROWS + 5)))
    assert (len(calendar.rows), calendar.unshown) == (SHOWN_ROWS, 5)


def test_a_bar_has_its_name_where_that_has_room() -> None:
    monday = week().begins_at
    for name, hours, has_name in (
        ("R1", 12, True),
        ("R1", 6, False),
        ("Workshop", 24, True),
        ("Workshop", 12, False),
    ):
        one = replace(entry(1, monday, timedelta(hours=hours), "a"), name=name)
        [bar] = drawn(one).rows[0].bars
        assert bar.has_name is has_name, (name, hours)
