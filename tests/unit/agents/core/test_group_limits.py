"""Limits of resource groups: values, and the hours in which they apply."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.group_limits import MOST_LIMITS, WEEK, Hours, parse_limits, validate_limits
from common.values.time_zones import zone_or_utc

TYPES = ["interactive", "batch"]
BERLIN = "Europe/Berlin"
BY_DAY = {
    "name": "By day", "session_types": ["batch"], "together": {"cuda": 8000}, "each": {"cuda": 2000},
    "days": [1, 2, 3, 4, 5], "begins": "08:00", "ends": "18:00", "time_zone": BERLIN,
}  # fmt: skip
ALWAYS = {"name": "For one", "each": {"cuda": 2000}}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hours(days: tuple[int, ...], begins: str, ends: str, zone: str = "UTC") -> Hours:
    return Hours(days, time.fromisoformat(begins), time.fromisoformat(ends), zone)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-27 06:59", None),
        ("2026-11-27 07:00", "2026-11-27 17:00"),
        ("2026-11-27 16:59", "2026-11-27 17:00"),
        ("2026-11-27 17:00", None),
        ("2026-11-28 12:00", None),  # a Saturday
        ("2026-07-03 06:00", "2026-07-03 16:00"),  # in summer
    ],
)
def test_hours_hold_by_the_clocks_of_their_zone(now: str, until: str | None) -> None:
    by_day = hours((1, 2, 3, 4, 5), "08:00", "18:00", BERLIN)
    assert by_day.until(at(now)) == (until and at(until))


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-27 17:59", None),
        ("2026-11-27 18:00", "2026-11-28 08:00"),
        ("2026-11-28 07:59", "2026-11-28 08:00"),  # of the night that began on Friday
        ("2026-11-28 19:00", None),
    ],
)
def test_a_night_is_of_the_day_on_which_it_begins(now: str, until: str | None) -> None:
    assert hours((5,), "18:00", "08:00").until(at(now)) == (until and at(until))


def test_days_that_follow_at_once_are_one_time() -> None:
    weekend = hours((6, 7), "00:00", "00:00")
    assert weekend.until(at("2026-11-28 12:00")) == at("2026-11-30 00:00")
    assert hours((7, 1), "12:00", "12:00").until(at("2026-11-29 13:00")) == at("2026-12-01 12:00")


def test_an_hour_that_comes_twice_counts_twice_and_one_that_is_left_out_not_at_all() -> None:
    night = hours((7,), "01:00", "04:00", BERLIN)
    assert night.until(at("2026-10-25 00:00")) == at("2026-10-25 03:00")  # four hours from 23:00 UTC
    assert night.until(at("2026-10-24 22:59")) is None
    assert night.until(at("2026-03-29 00:30")) == at("2026-03-29 02:00")
    assert hours((7,), "02:15", "02:45", BERLIN).until(at("2026-03-29 01:20")) == at("2026-03-29 01:45")


@given(
    days=st.sets(st.sampled_from(WEEK), min_size=1),
    begins=st.times(),
    ends=st.times(),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Pacific/Auckland"]),
    now=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_they_hold_until_they_end_and_not_at_the_end(
    days: set[int], begins: time, ends: time, zone: str, now: datetime
) -> None:
    found = Hours(tuple(sorted(days)), begins, ends, zone)
    until, shown = found.until(now), now.astimezone(zone_or_utc(zone))
    if shown.utcoffset() == (shown - timedelta(days=1)).utcoffset():
        assert (until is not None) == shows(found, shown)
    is_always = len(days) == len(WEEK) and begins == ends
    if until is not None and not is_always:
        assert now < until <= now + timedelta(days=7)
        assert found.until(until) is None
        assert found.until(now + (until - now) / 2) == until


def shows(hours: Hours, shown: datetime) -> bool:
    """Whether a clock on the wall is in these hours."""
    today, yesterday, now = shown.isoweekday(), (shown - timedelta(days=1)).isoweekday(), shown.time()
    if hours.begins < hours.ends:
        return today in hours.days and hours.begins <= now < hours.ends
    return (today in hours.days and now >= hours.begins) or (yesterday in hours.days and now < hours.ends)


def test_limit_is_stored_in_a_normal_form() -> None:
    raw = {**BY_DAY, "name": " By day ", "begins": "8:00", "days": [5, 1, 2, 3, 4, 1]}
    [kept] = validate_limits([raw], TYPES)
    assert kept == BY_DAY
    assert validate_limits([kept], TYPES) == [kept]


def test_without_hours_or_with_all_of_them_it_holds_always() -> None:
    all_hours = {**BY_DAY, "days": list(WEEK), "begins": "06:00", "ends": "06:00"}
    for raw in (ALWAYS, all_hours):
        [limit] = parse_limits(validate_limits([raw], TYPES))
        assert limit.hours is None
        assert limit.is_in_force(at("2026-11-28 03:00"))
        assert limit.until(at("2026-11-28 03:00")) is None


def test_it_counts_sessions_of_its_types() -> None:
    by_day, always = parse_limits(validate_limits([BY_DAY, ALWAYS], TYPES))
    assert [by_day.counts(each) for each in TYPES] == [False, True]
    assert all(always.counts(each) for each in TYPES)
    assert by_day.is_in_force(at("2026-11-27 10:00"))
    assert not by_day.is_in_force(at("2026-11-27 20:00"))
    assert by_day.until(at("2026-11-27 10:00")) == at("2026-11-27 17:00")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": " "}, "a name"),
        ({"name": 7}, "Give text"),
        ({"name": "x" * 65}, "At most 64 characters"),
        ({"name": "up\u202eside down"}, "do not show"),
        ({"from": "8"}, "no “from”"),
        ({"together": {}, "each": {}}, "Give a limit"),
        ({"together": False}, "an amount for each slot"),
        ({"session_types": None}, "interactive, batch"),
        ({"together": {"No Slot": 1}}, "an amount for each slot"),
        ({"together": {"cuda": -1}}, "an amount for each slot"),
        ({"each": {"cuda": True}}, "an amount for each slot"),
        ({"each": [1]}, "an amount for each slot"),
        ({"session_types": ["tea"]}, "interactive, batch"),
        ({"session_types": "batch"}, "interactive, batch"),
        ({"days": [0]}, "from 1 (Monday)"),
        ({"days": ["1"]}, "from 1 (Monday)"),
        ({"days": 1}, "from 1 (Monday)"),
        ({"days": []}, "or none of these"),
        ({"begins": ""}, "or none of these"),
        ({"time_zone": ""}, "or none of these"),
        ({"ends": "24:00"}, "hours and minutes"),
        ({"ends": "noon"}, "hours and minutes"),
        ({"time_zone": "Mars/Base"}, "no time zone"),
        ({"time_zone": "../etc/passwd"}, "no time zone"),
        ({"time_zone": 1}, "no time zone"),
        ({"time_zone": "localtime"}, "no time zone"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_to_do(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        validate_limits([{**BY_DAY, **changes}], TYPES)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "a list"),
        (["By day"], "a list"),
        ([{**ALWAYS, "name": f"{number}"} for number in range(MOST_LIMITS + 1)], "at most 10"),
        ([ALWAYS, {**ALWAYS, "name": "For one "}], "“For one”"),
    ],
)
def test_so_is_what_is_no_list_of_them(raw: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        validate_limits(raw, TYPES)
