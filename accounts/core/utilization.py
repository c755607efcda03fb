"""Minimum utilisation of sessions: columns and bounds shared by resource groups and policies.
Pure.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from common.i18n import gettext as _
from common.i18n import gettext_noop
from common.values.durations import format_duration

MIN_UTILIZATION_COLUMNS = (
    "min_cpu_percent",
    "min_mem_percent",
    "min_device_percent",
    "min_device_mem_percent",
)
MOST_PERCENT = 100
LEAST_WINDOW_S, MOST_WINDOW_S = 600, 86400
LEAST_GRACE_S = 600


class UtilizationRule(StrEnum):
    """Combination of minimum utilisations of a group or policy: all or any must be missed."""

    ALL = "all"
    ANY = "any"


RULE_TITLES = {
    UtilizationRule.ALL: gettext_noop("all of them are below"),
    UtilizationRule.ANY: gettext_noop("any of them is below"),
}


def is_joint(rule: str, minimums: Iterable[object]) -> bool:
    """Return true if reaching one of these minimum utilisations suffices."""
    return rule == UtilizationRule.ALL and len(list(minimums)) > 1


def may_end_sessions(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return true if a policy change from `before` to `after` may end running sessions that
    `before` let run. Any new value of an idle timeout or minimum utilisation counts. Any change of
    window or grace counts, also to none, because the group's may be shorter. For a joint rule,
    fewer minimum utilisations or the rule "any" count.
    """
    if any(before[name] != after[name] is not None for name in ("max_idle_s", *MIN_UTILIZATION_COLUMNS)):
        return True
    if any(before[name] != after[name] for name in ("use_window_s", "use_grace_s")):
        return True
    was = {name for name in MIN_UTILIZATION_COLUMNS if before[name] is not None}
    now = {name for name in MIN_UTILIZATION_COLUMNS if after[name] is not None}
    is_loosest = after["use_rule"] == UtilizationRule.ALL and now == was
    return is_joint(before["use_rule"], was) and bool(now) and not is_loosest


def has_min_utilization(row: object) -> bool:
    """Return true if a group or policy sets a minimum utilisation."""
    return any(getattr(row, column) is not None for column in MIN_UTILIZATION_COLUMNS)


def ineffective_grace(lifetime_s: int | None, needed_s: int) -> str:
    """Return the sentence that window and grace of `needed_s` together never end a session before
    its maximum lifetime does; "" if they can.
    """
    if lifetime_s is None or needed_s < lifetime_s:
        return ""
    return _(
        "After {lifetime} every session has ended; a window and a grace time of {needed} together never end one before."
        " Make them shorter, or set no minimum utilization."
    ).format(lifetime=format_duration(lifetime_s), needed=format_duration(needed_s))
