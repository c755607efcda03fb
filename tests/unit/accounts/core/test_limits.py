"""Texts and edge cases of limits; the laws for all limits are in tests/property/test_limits.py."""

from dataclasses import replace

import pytest

from accounts.core.limits import (
    SCOPE_TITLES,
    TITLES,
    Level,
    Limit,
    LimitState,
    Scope,
    StorageLevel,
    applies_at,
    effective_limits,
    format_limit,
    is_looser,
    refused_limits,
    tightest_value,
    unsatisfiable_limits,
)
from accounts.core.utilization import MIN_UTILIZATION_COLUMNS, UtilizationRule, may_end_sessions
from accounts.models import COLUMNS, SLOT_COLUMNS, policy_limits

GIB = 2**30


def scope(level: Level = Level.PROJECT, used: dict[str, int] | None = None, **limits: int) -> Scope:
    names = {name.replace("__", "."): amount for name, amount in limits.items()}
    return Scope(level, 7, "vision", "small", names, {**(used or {})})


def test_every_limit_has_a_title_a_column_and_a_sentence() -> None:
    assert set(TITLES) == set(Limit) == {*COLUMNS, *SLOT_COLUMNS}
    assert set(SCOPE_TITLES) == {*Level, *StorageLevel}
    for kind in Limit:
        name = kind.of_slot("cpu") if kind in SLOT_COLUMNS else kind.value
        state = LimitState(name, Level.USER, "a@berth.example", "small", value=3, used=3, left=0, asked=1)
        assert "{" not in state.refusal
        assert state.refusal.startswith("Your account ")


@pytest.mark.parametrize(
    ("limit", "level", "numbers", "sentence"),
    [
        (
            "sessions",
            Level.PROJECT,
            (10, 10, 0, 1),
            "The project “vision” has reached its limit of live sessions (10 of 10).",
        ),
        (
            "slots.cuda",
            Level.DOMAIN,
            (0, 0, 0, 1000),
            "The domain “vision” may have at most 0 × NVIDIA GPU allocated; you asked for 1 × NVIDIA GPU.",
        ),
        (
            "pending_slots.mem",
            Level.KEYPAIR,
            (8 * GIB, 7 * GIB, GIB, 2 * GIB),
            "The token “vision” has 1 GiB left of 8 GiB for sessions that wait; you asked for 2 GiB.",
        ),
        (
            "lifetime_s",
            Level.USER,
            (3600, 0, 3600, 5400),
            "Your account may run a session for at most 1 h; you asked for 1 h 30 min.",
        ),
        (
            "folder_bytes",
            Level.USER,
            (GIB, GIB // 2, GIB // 2, GIB),
            "Your account has 512 MiB left of 1 GiB for folders; you asked for 1 GiB.",
        ),
    ],
)
def test_refusal_names_the_limit_and_its_value(
    limit: str, level: Level, numbers: tuple[int, int, int, int], sentence: str
) -> None:
    value, used, left, asked = numbers
    assert LimitState(limit, level, "vision", "small", value, used, left, asked).refusal == sentence


def test_titles_name_the_slot() -> None:
    names = ("slots.cuda", "slots.mem", "pending_slots.cpu", "sessions")
    titles = [LimitState(name, Level.USER, "", "", 1, 0, 1).title for name in names]
    assert titles == [
        "NVIDIA GPU in sessions", "Memory in sessions", "CPU requested by waiting sessions", "Live sessions",
    ]  # fmt: skip


def test_effective_limits_stand_in_the_order_of_the_page() -> None:
    found = scope(keypairs=1, sessions=1, slots__cuda=1, slots__mem=1, slots__cpu=1)
    names = [state.limit for state in effective_limits([found])]
    assert names == ["slots.cpu", "slots.mem", "slots.cuda", "sessions", "keypairs"]


def test_amounts_are_said_in_their_units() -> None:
    amounts = {
        "slots.cpu": 1500,
        "folders": 12,
        "idle_timeout_s": 90,
        "folder_bytes": GIB,
        "min_mem_percent": 30,
        "use_grace_s": 600,
    }
    assert [format_limit(*pair) for pair in amounts.items()] == [
        "1.5 cores", "12", "1 min 30 s", "1 GiB", "30 %", "10 min",
    ]  # fmt: skip


def test_what_a_request_may_be_by_itself_does_not_add_up() -> None:
    scopes = [scope(used={"lifetime_s": 50}, lifetime_s=100)]
    assert refused_limits(scopes, {"lifetime_s": 100}) == ()
    assert [state.used for state in refused_limits(scopes, {"lifetime_s": 101})] == [0]


def test_a_limit_below_what_is_used_has_nothing_left() -> None:
    tight = scope(used={"sessions": 5}, sessions=3)
    assert [(state.left, state.value, state.used) for state in effective_limits([tight])] == [(0, 3, 5)]
    assert refused_limits([tight], {"sessions": 0, "folders": 9}) == ()
    assert [state.asked for state in refused_limits([tight], {"sessions": 1})] == [1]


def test_of_equal_rooms_the_smaller_limit_counts_and_then_the_wider_scope() -> None:
    domain = scope(Level.DOMAIN, {"sessions": 5}, sessions=10)
    project = scope(Level.PROJECT, {}, sessions=5)
    user = scope(Level.USER, {}, sessions=5)
    assert [state.level for state in effective_limits([user, domain, project])] == [Level.PROJECT]


def test_the_smallest_ceiling_counts() -> None:
    scopes = [scope(lifetime_s=7200), scope(Level.USER, lifetime_s=60), scope(Level.DOMAIN)]
    assert tightest_value(scopes, Limit.LIFETIME) == 60
    assert tightest_value(scopes, Limit.PRIORITY) is None


def test_of_what_has_to_be_used_at_least_the_largest_counts_and_then_the_widest_scope() -> None:
    scopes = [
        scope(Level.DOMAIN, min_cpu_percent=5, min_mem_percent=9, use_window_s=7200),
        scope(Level.PROJECT, min_cpu_percent=30, use_window_s=600),
        scope(Level.USER, {"min_mem_percent": 4}, min_cpu_percent=30, min_mem_percent=8),
    ]
    found = [
        (state.limit, state.level, state.value, state.used, state.left) for state in effective_limits(scopes)
    ]
    assert found == [
        ("min_cpu_percent", Level.PROJECT, 30, 0, 0),
        ("min_mem_percent", Level.DOMAIN, 9, 0, 0),
        ("use_window_s", Level.PROJECT, 600, 0, 600),
    ]


def test_what_counts_only_together_stands_whole_beside_what_counts_by_itself() -> None:
    joint = {"use_rule": UtilizationRule.ALL}
    scopes = [
        replace(scope(Level.DOMAIN, min_cpu_percent=50, min_mem_percent=10), **joint),
        replace(scope(Level.PROJECT, min_cpu_percent=60, min_device_percent=5), **joint),
        replace(scope(Level.USER, min_cpu_percent=70), **joint),
        scope(Level.KEYPAIR, min_cpu_percent=30, min_mem_percent=8),
    ]
    assert [
        (state.limit, state.level, state.value, state.is_joint) for state in effective_limits(scopes)
    ] == [
        ("min_cpu_percent", Level.USER, 70, False),
        ("min_cpu_percent", Level.DOMAIN, 50, True),
        ("min_cpu_percent", Level.PROJECT, 60, True),
        ("min_mem_percent", Level.KEYPAIR, 8, False),
        ("min_mem_percent", Level.DOMAIN, 10, True),
        ("min_device_percent", Level.PROJECT, 5, True),
    ]


NOTHING = dict.fromkeys(("max_idle_s", "use_window_s", "use_grace_s", *MIN_UTILIZATION_COLUMNS))


@pytest.mark.parametrize(
    ("before", "after", "ends"),
    [
        ({}, {"max_idle_s": 60}, True),
        ({"max_idle_s": 60}, {}, False),
        ({}, {"min_cpu_percent": 5}, True),
        ({"min_cpu_percent": 5}, {"min_cpu_percent": 5}, False),
        ({"min_cpu_percent": 5}, {}, False),
        ({"use_grace_s": 900}, {"use_grace_s": 600}, True),
        ({"use_grace_s": 900}, {}, True),
        ({"use_window_s": 900}, {"use_window_s": 900}, False),
        ({"use_rule": "all"}, {}, False),
        ({"use_rule": "all", "min_cpu_percent": 5}, {"min_cpu_percent": 5}, False),
        (
            {"use_rule": "all", "min_cpu_percent": 5, "min_mem_percent": 5},
            {"use_rule": "all", "min_cpu_percent": 5},
            True,
        ),
        ({"use_rule": "all", "min_cpu_percent": 5, "min_mem_percent": 5}, {"min_cpu_percent": 5}, True),
        ({"use_rule": "all", "min_cpu_percent": 5, "min_mem_percent": 5}, {"use_rule": "all"}, False),
        ({"min_cpu_percent": 5, "min_mem_percent": 5}, {"min_cpu_percent": 5}, False),
        ({"min_cpu_percent": 5, "min_mem_percent": 5}, {"use_rule": "all", "min_cpu_percent": 5}, False),
        (
            {"min_cpu_percent": 5, "min_mem_percent": 5},
            {"use_rule": "all", "min_cpu_percent": 5, "min_mem_percent": 5},
            False,
        ),
        (
            {"use_rule": "all", "min_cpu_percent": 5, "min_mem_percent": 5},
            {"min_cpu_percent": 5, "min_mem_percent": 5},
            True,
        ),
    ],
)
def test_columns_that_may_end_sessions_are_known(
    before: dict[str, object], after: dict[str, object], ends: bool
) -> None:
    usual = {**NOTHING, "use_rule": "any"}
    assert may_end_sessions({**usual, **before}, {**usual, **after}) is ends


def test_of_what_has_to_be_used_at_least_less_is_looser() -> None:
    assert is_looser("min_cpu_percent", 4, 5)
    assert is_looser("sessions", 5, 4)
    assert not any(is_looser(limit, 5, 5) for limit in ("min_cpu_percent", "sessions"))


def test_more_than_the_limit_itself_is_never_possible() -> None:
    full = scope(used={"slots.cpu": 4000}, slots__cpu=4000)
    assert unsatisfiable_limits([full], {"slots.cpu": 4000, "slots.mem": GIB}) == ()
    assert [state.limit for state in unsatisfiable_limits([full], {"slots.cpu": 4001})] == ["slots.cpu"]


def test_some_limits_stand_at_some_levels() -> None:
    assert [level for level in Level if applies_at("keypairs", level)] == [Level.USER]
    assert not applies_at("folders", Level.KEYPAIR)
    assert [level for level in Level if not applies_at("requests", level)] == [Level.PROJECT]
    assert all(applies_at("slots.cpu", level) for level in Level)


def test_a_policy_sets_what_is_not_empty() -> None:
    row = {
        **dict.fromkeys(COLUMNS.values()),
        "max_sessions": 0,
        "max_slots": {"cuda": 0},
        "max_pending_slots": {},
    }
    assert policy_limits(row) == {"sessions": 0, "slots.cuda": 0}
