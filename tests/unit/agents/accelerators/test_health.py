"""Judgement of devices by the rules of their vendor."""

import pytest

from agents.accelerators.description import Health, HealthRule
from agents.accelerators.health import HEALTHY, LOST, judge

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
