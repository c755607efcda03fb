"""Judgement of devices by the health rules of their vendor's description, as administrators changed
them. Pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agents.accelerators.description import CAUSES, Action, Health, HealthRule, Xid
from common.i18n import gettext_noop

Values = Mapping[str, Any]  # of the health source, by field
MOST_XID = 9999
LOST = gettext_noop("It was there and is no longer.")
LOST_RULE, XID_RULE, OTHER_XIDS = "lost", "xid-", "xid-other"
_SEVERITY = {"ok": 0, "ignore": 0, "warn": 1, "quarantine": 2}


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
        return HEALTHY if before is None or health.lost == "ignore" else Verdict(health.lost, LOST)
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
    return HEALTHY if not _SEVERITY[worst] else Verdict(worst, CAUSES["fault"])


def is_worse(verdict: Verdict, other: Verdict) -> bool:
    """Return True if the verdict is more severe than the other."""
    return _SEVERITY[verdict.state] > _SEVERITY[other.state]


def lasting_rules(health: Health) -> Health:
    """Return the rules that judge a value by itself, without its change between two looks."""
    lasting = tuple(rule for rule in health.rules if not (rule.grows or rule.stuck))
    return health.model_copy(update={"rules": lasting})


def rule_actions(health: Health) -> dict[str, Action]:
    """Return {name of a rule: its action} in the order of the description: fields, "xid-NUMBER" and
    "xid-other" where the driver tells events, and "lost".
    """
    actions: dict[str, Action] = {rule.field: rule.then for rule in health.rules}
    if health.xid is not None:
        lists: tuple[Action, ...] = ("ignore", "warn", "quarantine")
        named = {number: action for action in reversed(lists) for number in getattr(health.xid, action)}
        actions |= {f"{XID_RULE}{number}": named[number] for number in sorted(named)}
        actions[OTHER_XIDS] = health.xid.rest
    return {**actions, LOST_RULE: health.lost}


def with_actions(health: Health, actions: Mapping[str, Action]) -> Health:
    """Return the rules with these actions, by the name of a rule; names that no rule has do nothing."""
    rules = tuple(
        rule.model_copy(update={"then": actions.get(rule.field, rule.then)})
        for rule in health.rules
        if actions.get(rule.field) != "ignore"
    )
    changed = {"rules": rules, "lost": actions.get(LOST_RULE, health.lost)}
    return health.model_copy(update=changed | {"xid": _with_xids(health.xid, actions)})


def xid_number(rule: str) -> int | None:
    """Return the number of "xid-NUMBER", None for other names."""
    text = rule.removeprefix(XID_RULE)
    is_number = (
        rule.startswith(XID_RULE) and text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_XID))
    )
    return int(text) if is_number and str(int(text)) == text else None


def _with_xids(rules: Xid | None, actions: Mapping[str, Action]) -> Xid | None:
    if rules is None:
        return None
    moved = {number: action for name, action in actions.items() if (number := xid_number(name)) is not None}
    lists: dict[str, Any] = {}
    for action in ("ignore", "warn", "quarantine"):
        kept = [number for number in getattr(rules, action) if number not in moved]
        lists[action] = (*kept, *(number for number, to in moved.items() if to == action))
    return rules.model_copy(update={**lists, "rest": actions.get(OTHER_XIDS, rules.rest)})


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
