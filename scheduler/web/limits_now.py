"""Limits of a resource group that are in force, with the use by all sessions and by the viewer, for
the queue page.
"""

from typing import Any

from agents.models import ResourceGroup
from common import clock
from scheduler.web.groups import slot_meters
from scheduler.web.limits import counted_words
from sessions_app.limits.group_limits import NOTHING, held_in, in_force


def limits_now(group: ResourceGroup, user_id: int | None) -> list[dict[str, Any]]:
    """Return the limits in force with their use. One query, none without limits."""
    limits = in_force(group, clock.now())
    held = held_in([group.pk]).get(group.pk, NOTHING) if limits else NOTHING
    used = [each.used(held) for each in limits]
    return [
        {
            "name": each.limit.name,
            "counts": counted_words(each.limit.session_types),
            "until": each.until,
            "together": slot_meters(its_use.together, each.limit.together),
            "own": slot_meters(its_use.by_owner[user_id or 0], each.limit.each),
        }
        for each, its_use in zip(limits, used, strict=True)
    ]
