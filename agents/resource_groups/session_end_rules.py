"""Rules of a resource group by which sessions end automatically: their columns, and contradictions
between them. Pure but for translated messages; the limits are explained in docs/subsystems/idle.md.
"""

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from accounts.core.utilization import LEAST_USES, has_least_use, too_late_to_end
from common.values.durations import format_duration

if TYPE_CHECKING:
    from agents.models import ResourceGroup

ENDS = (
    "max_lifetime_s", "max_idle_s", *LEAST_USES, "use_rule", "use_window_s", "use_grace_s", "ends_idle_batch",
    "max_extensions", "extension_s",
)  # fmt: skip


def contradictions(group: "ResourceGroup") -> dict[str, str]:
    """Return {column: message} for limits that another limit makes ineffective for every session
    that is not extended.
    """
    found = {}
    lifetime_s = group.max_lifetime_s
    if lifetime_s is not None and group.max_idle_s is not None and group.max_idle_s >= lifetime_s:
        found["max_idle_s"] = _(
            "After {lifetime} every session has ended, so none is idle for {idle}. Make the idle timeout shorter than the"
            " lifetime, or leave it empty."
        ).format(lifetime=format_duration(lifetime_s), idle=format_duration(group.max_idle_s))
    needed_s = group.use_window_s + group.use_grace_s
    if has_least_use(group) and (too_late := too_late_to_end(lifetime_s, needed_s)):
        found["use_grace_s"] = too_late
    if group.max_extensions and not group.extension_s:
        found["extension_s"] = _(
            "An extension of no time extends nothing. Give its length, or allow no extensions."
        )
    return found
