"""Judgement of devices by the rules of their vendor."""

from typing import Any

import pytest

from agents.accelerators.description import Health, HealthRule, vendor_named
from agents.accelerators.health import (
    HEALTHY,
    LOST,
    judge,
    judge_xids,
    lasting_rules,
    rule_actions,
    with_actions,
)

RULES = Health(
    rules=(
        HealthRule(field="throttle", one_of=(1,), then="warn", because="slowed"),
        HealthRule(field="action", none_of=(0, "none"), then="quarantine", because="reset"),
        HealthRule(field="errors", above=0, then="quarantine", because="memory_errors"),
        HealthRule(field="rows", grows=True, then="warn", because="memory_worse"),
        HealthRule(field="beat", stuck=True, then="quarantine", because="silent"),
    )
)


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (None, {}, "ok"),
        (None, {"throttle": 1}, "warn"),
        (None, {"throttle": 1, "errors": 2}, "quarantine"),  # the worst
        (None, {"action": "none", "errors": 0, "rows": 3, "beat": 7}, "ok"),
        ({"rows": 3, "beat": 7}, {"rows": 4, "beat": 8}, "warn"),
        ({"rows": 3, "beat": 7}, {"rows": 3, "beat": 7}, "quarantine"),
        (None, {"errors": "many", "rows": None}, "ok"),  # unknown values break no rule
        ({}, None, "quarantine"),
        (None, None, "ok"),
    ],
)
def test_the_worst_rule_that_is_broken_counts(before, now, state) -> None:
    assert judge(RULES, before, now).state == state


def test_a_verdict_says_why() -> None:
    assert judge(RULES, None, {"errors": 1}).because == "Memory errors that could not be corrected."
    assert judge(Health(lost="warn"), {}, None) == ("warn", LOST)
    assert judge(Health(), {"errors": 1}, {"errors": 2}) == HEALTHY


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (None, [31], "ok"),
        (None, [31, 94], "warn"),
        ([94], [94, 79, 31], "quarantine"),
        ([79], [79], "ok"),
        ([79], [], "ok"),
        (None, "garbage", "ok"),
        ([], [{}, "79", None], "ok"),
    ],
)
def test_new_events_of_the_driver_are_judged_by_their_number(before: Any, now: Any, state: str) -> None:
    nvidia = vendor_named("nvidia")
    assert nvidia is not None
    assert judge_xids(nvidia.health, before, now).state == state


def test_actions_of_administrators_replace_those_of_the_description() -> None:
    nvidia = vendor_named("nvidia")
    assert nvidia is not None
    usual = rule_actions(nvidia.health)
    assert (usual["throttle"], usual["xid-31"], usual["xid-94"]) == ("warn", "ignore", "warn")
    assert (usual["xid-other"], usual["lost"]) == ("quarantine", "quarantine")
    changed = {"throttle": "ignore", "remap_pending": "warn", "xid-31": "quarantine", "xid-79": "ignore"}
    rules = with_actions(nvidia.health, {**changed, "xid-other": "warn", "lost": "ignore"})
    assert judge(rules, None, {"throttle": 1}) == HEALTHY
    assert judge(rules, None, {"remap_pending": 1}).state == "warn"
    assert judge(rules, {}, None) == HEALTHY
    states = [judge_xids(rules, None, [number]).state for number in (31, 79, 94, 5)]
    assert states == ["quarantine", "ok", "warn", "warn"]
    assert rule_actions(with_actions(nvidia.health, {})) == usual


def test_a_change_between_two_looks_is_not_judged_by_one_value() -> None:
    assert judge(lasting_rules(RULES), {"rows": 3, "beat": 7}, {"rows": 4, "beat": 7}) == HEALTHY
    assert judge(lasting_rules(RULES), None, {"throttle": 1}).state == "warn"
