"""Idle limits end nothing without measurements, a warning and a grace period."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.core.utilization import UtilizationRule
from sessions_app.core.idle_rules import (
    Cause,
    End,
    Extension,
    Facts,
    MinimumUtilization,
    ResourceUtilization,
    Thresholds,
    earliest_end,
    expected_ends,
    extended_end,
    is_low,
    is_still_missed,
    max_utilization,
    may_end,
    measured_utilization,
    shown_thresholds,
    tightest_extension,
    utilization_percent,
    warning_due,
)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = 3600
instants = st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))


def after(**time: float) -> datetime:
    return NOON + timedelta(**time)


def facts(**changes: object) -> Facts:
    return Facts(**{"started_at": NOON, "measured_from": NOON, **changes})  # type: ignore[arg-type]


def every(**least: int) -> Thresholds:
    """That all of these be missed."""
    return Thresholds(least, UtilizationRule.ALL)


def one(**least: int) -> Thresholds:
    return Thresholds(least, UtilizationRule.ANY)


def test_session_without_limit_never_ends() -> None:
    assert expected_ends(facts()) == ()


def test_the_next_end_comes_first() -> None:
    both = facts(lifetime_ends_at=after(hours=8), lifetime_s=8 * HOUR, max_idle_s=2 * HOUR, low_since=after(hours=1), use_grace_s=HOUR // 2)  # fmt: skip
    assert [(end.cause, end.at) for end in expected_ends(both)] == [
        (Cause.USE, after(hours=1.5)),
        (Cause.INTERACTION, after(hours=2)),
        (Cause.LIFETIME, after(hours=8)),
    ]


@pytest.mark.parametrize(
    ("known", "since"),
    [
        ({"interacted_at": after(minutes=30)}, after(minutes=30)),
        ({"interacted_at": after(minutes=-30)}, NOON),
        ({"measured_from": after(hours=1), "interacted_at": after(minutes=30)}, after(hours=1)),
        ({"measured_from": None, "interacted_at": after(minutes=30)}, None),
    ],
)
def test_idle_time_counts_from_where_it_is_known(known: dict[str, datetime], since: datetime | None) -> None:
    assert facts(max_idle_s=HOUR, **known).idle_since == since


def test_extended_session_lasts_until_its_extension_ends() -> None:
    [end] = expected_ends(facts(max_idle_s=HOUR, kept_until=after(hours=3)))
    assert end.at == after(hours=3)


@pytest.mark.parametrize(
    ("span_s", "marks"),
    [(HOUR, (1800, 600, 300)), (1800, (600, 300)), (600, (300,)), (300, (150,)), (2, (1,))],
)
def test_short_limits_have_shorter_warnings(span_s: int, marks: tuple[int, ...]) -> None:
    assert End(NOON, Cause.LIFETIME, span_s).marks_s == marks


@pytest.mark.parametrize(
    ("left_s", "given_marks", "mark"),
    [
        (1801, (), None),
        (1800, (), 1800),
        (1700, (1800,), None),
        (600, (1800,), 600),
        (299, (1800, 600), 300),
        (-HOUR, (), 300),
        (-HOUR, (300,), None),
    ],
)
def test_each_warning_is_given_once_and_late_ones_are_not_made_up_for(
    left_s: int, given_marks: tuple[int, ...], mark: int | None
) -> None:
    end = End(NOON, Cause.LIFETIME, 8 * HOUR)
    assert warning_due(end, NOON - timedelta(seconds=left_s), given_marks) == mark


def test_no_end_without_warning_and_full_grace_after_a_late_one() -> None:
    end = End(NOON, Cause.LIFETIME, 8 * HOUR)
    assert not may_end(end, after(days=1), None)
    assert not may_end(end, after(minutes=4), NOON)
    assert may_end(end, after(minutes=5), NOON)
    assert not may_end(end, after(seconds=-1), after(hours=-1))
    assert may_end(end, NOON, after(minutes=-5))
    assert earliest_end(end, after(minutes=10)) == after(minutes=15)


@given(
    started=instants,
    interacted=st.none() | instants,
    measured=st.none() | instants,
    low=st.none() | instants,
    kept=st.none() | instants,
    lifetime=st.none() | instants,
    max_idle=st.none() | st.integers(1, 10**5),
    now=instants,
    told=st.none() | instants,
)
def test_no_end_without_measurement_warning_and_grace(
    started: datetime,
    interacted: datetime | None,
    measured: datetime | None,
    low: datetime | None,
    kept: datetime | None,
    lifetime: datetime | None,
    max_idle: int | None,
    now: datetime,
    told: datetime | None,
) -> None:
    known = Facts(started, 7200, lifetime, max_idle, interacted, measured, low, 3600, kept)
    for end in expected_ends(known):
        if not may_end(end, now, told):
            continue
        assert told is not None
        assert now - told >= timedelta(seconds=min(300, end.span_s // 2))
        if end.cause is Cause.INTERACTION:
            assert measured is not None
            assert max_idle is not None
            assert now - max(started, measured, interacted or started) >= timedelta(seconds=max_idle)
        if end.cause is Cause.USE:
            assert low is not None
        if end.cause is not Cause.LIFETIME:
            assert kept is None or now >= kept


@pytest.mark.parametrize(
    ("use", "rule", "low"),
    [
        ({"cpu": 3, "mem": 2}, UtilizationRule.ALL, True),
        ({"cpu": 30, "mem": 2}, UtilizationRule.ALL, False),
        ({"cpu": 30, "mem": 2}, UtilizationRule.ANY, True),
        ({"cpu": 30, "mem": 20}, UtilizationRule.ANY, False),
        ({"cpu": None, "mem": 2}, UtilizationRule.ALL, None),
        ({"cpu": None, "mem": 20}, UtilizationRule.ALL, False),
        ({"cpu": None, "mem": 2}, UtilizationRule.ANY, True),
        ({"cpu": None, "mem": 20}, UtilizationRule.ANY, None),
        ({"cpu": 3}, UtilizationRule.ALL, True),
        ({}, UtilizationRule.ALL, None),
    ],
)
def test_too_little_use_is_what_was_measured(
    use: dict[str, int | None], rule: UtilizationRule, low: bool | None
) -> None:
    assert is_low(use, {"cpu": 5, "mem": 5}, rule) is low


def test_each_use_that_has_a_threshold_is_told_with_what_is_wanted() -> None:
    told = measured_utilization(
        {"cpu": 3, "mem": 50, "device": None}, {"cpu": 5, "device": 10, "device_mem": 10}
    )
    assert told == (ResourceUtilization("cpu", 3, 5), ResourceUtilization("device", None, 10))
    assert [each.is_low for each in (*told, ResourceUtilization("mem", 5, 5))] == [True, False, False]


@pytest.mark.parametrize(
    ("group", "policies", "is_missed"),
    [
        (every(cpu=5, mem=5), (), False),
        (one(cpu=5, mem=5), (), True),
        (every(cpu=5, mem=5), (one(mem=3),), True),
        (every(cpu=5, mem=5), (one(mem=2),), False),
        (every(mem=5), (one(cpu=1),), True),
        (every(), (one(cpu=30, mem=1),), True),
        (one(device=5), (one(device=100, device_mem=100),), False),
        (every(), (), False),
        (every(), (every(cpu=30, mem=1),), False),
        (every(), (every(cpu=30, mem=3),), True),
        (every(), (every(cpu=30, device=100),), False),
        (every(cpu=30), (every(cpu=10, mem=10),), True),
        (every(), (every(cpu=30), every(mem=1)), True),
        (every(), (every(cpu=10, mem=10), one(cpu=20, mem=2)), False),
    ],
)
def test_group_and_policies_are_each_judged_by_themselves(
    group: Thresholds, policies: tuple[Thresholds, ...], is_missed: bool
) -> None:
    least = MinimumUtilization(group, policies, timedelta(hours=1))
    assert least.is_missed_by({"cpu": 20, "mem": 2, "device": None}) is is_missed
    assert least.is_wanted is bool(group.least or policies)


def test_largest_of_several_thresholds_is_reported() -> None:
    told = shown_thresholds({}, [every(cpu=5, mem=9), one(cpu=30, device=1, mem=2), every(cpu=20, mem=1)])
    assert told == {"cpu": 30, "mem": 9, "device": 1}


@pytest.mark.parametrize(
    ("use", "wanted", "told"),
    [
        ({"cpu": 80, "mem": 5}, every(cpu=30, mem=30), {"mem": 10}),
        ({"cpu": 80, "mem": 5}, one(cpu=30, mem=30), {"cpu": 30, "mem": 30}),
        ({"cpu": 5, "mem": 5}, every(cpu=30, mem=30), {"cpu": 30, "mem": 30}),
        ({"cpu": 5, "mem": 20}, every(cpu=30, mem=30), {"cpu": 30, "mem": 30}),
        ({"cpu": 80, "mem": 20}, every(cpu=30, mem=30), {"cpu": 30, "mem": 30}),
    ],
)
def test_where_too_little_is_used_what_would_not_help_is_not_told(
    use: dict[str, int | None], wanted: Thresholds, told: dict[str, int]
) -> None:
    """Beside another that wants a tenth of the memory."""
    assert shown_thresholds(use, [wanted, one(mem=10)]) == told
    assert shown_thresholds(use, [one(mem=10), wanted]) == told


@pytest.mark.parametrize(
    ("wanted", "later", "wanted_later", "is_same"),
    [
        ([one(cpu=30)], {"cpu": 20, "mem": 60}, [one(cpu=30)], True),
        ([one(cpu=30)], {"cpu": 20, "mem": 60}, [one(cpu=30, mem=5)], True),
        ([one(cpu=30)], {"cpu": 20, "mem": 60}, [one(cpu=40)], False),
        ([one(cpu=30)], {"cpu": 40, "mem": 60}, [one(cpu=30)], False),
        ([one(cpu=30, mem=70)], {"cpu": 40, "mem": 60}, [one(cpu=30, mem=70)], True),
        ([one(cpu=10, mem=50)], {"cpu": 20, "mem": 45}, [one(cpu=10, mem=50)], False),
        (
            [every(cpu=50, mem=50), one(cpu=10)],
            {"cpu": 20, "mem": 45},
            [every(cpu=50, mem=50), one(cpu=10)],
            False,
        ),
        ([every(cpu=50, mem=70)], {"cpu": 20, "mem": 45}, [every(cpu=50, mem=70)], True),
        ([every(cpu=50, mem=70)], {"cpu": 20, "mem": 45}, [every(cpu=50)], False),
        ([every(cpu=30)], {"cpu": 20, "mem": 45}, [one(cpu=30, mem=5)], True),
        ([every(cpu=50, mem=70)], {"cpu": 20, "mem": None}, [every(cpu=50, mem=70)], False),
    ],
)
def test_a_grace_goes_on_for_what_was_missed_before_alone(
    wanted: list[Thresholds], later: dict[str, int | None], wanted_later: list[Thresholds], is_same: bool
) -> None:
    """Six percent of the CPU and sixty of the memory were used."""
    assert is_still_missed({"cpu": 6, "mem": 60}, wanted, later, wanted_later) is is_same


def test_of_two_spans_the_higher_use_counts_and_what_one_does_not_know_is_not_known() -> None:
    use = {"cpu": 5, "mem": 20, "device": None, "device_mem": 3}
    assert max_utilization(use, {"cpu": 9, "mem": 1, "device": 7}) == {
        "cpu": 9, "mem": 20, "device": None, "device_mem": None,
    }  # fmt: skip


def test_percent_of_nothing_is_not_known() -> None:
    assert (utilization_percent(50, 200), utilization_percent(None, 200), utilization_percent(1, 0)) == (
        25,
        None,
        None,
    )


def test_the_tightest_level_says_how_often_and_how_far() -> None:
    left = tightest_extension(used=1, most=[3, 2], lengths_s=[HOUR, 600])
    assert (left, left.is_possible) == (Extension(1, 600), True)
    assert not tightest_extension(used=3, most=[3, 2], lengths_s=[HOUR]).is_possible
    assert not tightest_extension(used=0, most=[], lengths_s=[]).is_possible


def test_an_extension_is_never_shorter_than_promised() -> None:
    end = End(NOON, Cause.LIFETIME, HOUR)
    assert extended_end(end, after(hours=-1), 600) == after(minutes=10)
    assert extended_end(end, after(minutes=3), 600) == after(minutes=13)
