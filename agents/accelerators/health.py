"""Judgement of devices by the health rules of their vendor's description. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agents.accelerators.description import CAUSES, Health, HealthRule, Xid
from common.i18n import gettext_noop

Values = Mapping[str, Any]  # of the health source, by field
LOST = gettext_noop("It was there and is no longer.")
_SEVERITY = {"ok": 0, "warn": 1, "quarantine": 2}


class Verdict(NamedTuple):
    """Judgement of a device: "ok", "warn" or "quarantine", and the English sentence that says why."""

    state: str = "ok"
    because: str = ""


HEALTHY = Verdict()


def judge(health: Health, before: Values | None, now: Values | None) -> Verdict:
    """Return the worst that a rule says of a device, the first of equals. `before` are the values of the
    last look, None before the first one; `now` is None if the device was there and is not any more.

    A value that is not known breaks no rule.
    """
    if now is None:
        return HEALTHY if before is None else Verdict(health.lost, LOST)
    verdicts = [
        Verdict(rule.then, CAUSES[rule.because])
        for rule in health.rules
        if now.get(rule.field) is not None
        and _is_broken(rule, (before or {}).get(rule.field), now[rule.field])
    ]
    return max(verdicts, key=lambda verdict: _SEVERITY[verdict.state], default=HEALTHY)


def judge_xids(health: Health, before: Any, now: Any) -> Verdict:
    """Return the worst that a driver's events say of a device: numbers that are in `now`, a list as a
    meter tells it, and not in `before`, that of the last look.
    """
    rules = health.xid
    if rules is None:
        return HEALTHY
    actions = {_action(rules, number) for number in _numbers(now) - _numbers(before)}
    worst = max(actions, key=lambda action: _SEVERITY[action], default="ok")
    return HEALTHY if worst == "ok" else Verdict(worst, CAUSES["fault"])


def _numbers(told: Any) -> set[int]:
    return {number for number in told if isinstance(number, int)} if isinstance(told, list) else set()


def _action(rules: Xid, number: int) -> str:
    lists = (("ok", rules.ignore), ("warn", rules.warn), ("quarantine", rules.quarantine))
    return next((action for action, numbers in lists if number in numbers), str(rules.rest))


def _is_broken(rule: HealthRule, before: Any, value: Any) -> bool:
    if rule.one_of:
        return value in rule.one_of
    if rule.none_of:
        return value not in rule.none_of
    if rule.stuck:
        return before is not None and value == before
    if not isinstance(value, int | float):
        return False
    if rule.grows:
        return isinstance(before, int | float) and value > before
    return rule.above is not None and value > rule.above
