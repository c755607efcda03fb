"""Evaluates a resource group's own limits (`agents.core.group_limits`) against its allocations."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import F, Sum

from agents.core.group_limits import GroupLimit, parse_limits
from agents.models import ResourceGroup
from common.values.resources import ResourceSlots
from sessions_app.models import KernelAllocation

Allocated = Mapping[tuple[str, int], Mapping[str, int]]
"""Amounts by slot, for each (type, owner) of sessions."""
NOTHING_ALLOCATED: Allocated = {}


@dataclass(frozen=True, slots=True)
class ActiveLimit:
    """Limit of a group that is in force now."""

    number: int  # index among the limits of the group, from 0
    limit: GroupLimit
    until: datetime | None  # None: always in force

    def used(self, allocated: Allocated) -> "Used":
        used = Used()
        for (kind, owner_id), amounts in allocated.items():
            if self.limit.counts(kind):
                used.together.update(amounts)
                used.by_owner[owner_id].update(amounts)
        return used

    def refuses(self, slots: ResourceSlots, allocated: Allocated, owner_id: int) -> bool:
        """Return True if the limit does not allow the owner these additional slots now."""
        used = self.used(allocated)
        return exceeds_limit(self.limit.together, slots, used.together) or exceeds_limit(
            self.limit.each, slots, used.by_owner[owner_id]
        )


@dataclass(frozen=True, slots=True)
class Used:
    """Amounts that count against a limit, by slot."""

    together: Counter[str] = field(default_factory=Counter)
    by_owner: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def exceeds_limit(
    limit: Mapping[str, int], requested: Mapping[str, int], allocated: Mapping[str, int]
) -> bool:
    """Return True if `requested` on top of `allocated` exceeds the limit.

    Ignores slots that are not in `requested`: they may exceed a limit that was lowered.
    """
    return any(
        amount > most - allocated.get(name, 0)
        for name, most in limit.items()
        if (amount := requested.get(name, 0))
    )


def active_limits(group: ResourceGroup, now: datetime) -> tuple[ActiveLimit, ...]:
    """Return the limits of the group that are in force now, in order."""
    if not group.limits:
        return ()
    limits = enumerate(parse_limits(group.limits))
    return tuple(
        [ActiveLimit(number, each, each.until(now)) for number, each in limits if each.is_in_force(now)]
    )


def allocations_by_group(group_ids: Collection[int]) -> dict[int, Allocated]:
    """Return the allocations of sessions of these groups, on any machine. One query."""
    session = "kernel__session__"
    allocated = (
        KernelAllocation.objects.filter(
            **{f"{session}resource_group__in": group_ids, f"{session}ended_at": None}
        )
        .values("slot_name", group_id=F(f"{session}resource_group_id"), kind=F(f"{session}type"))
        .annotate(owner_id=F(f"{session}owner_id"), total=Sum("amount"))
    )
    found: defaultdict[int, dict[tuple[str, int], dict[str, int]]] = defaultdict(dict)
    for row in allocated.order_by():
        amounts = found[row["group_id"]].setdefault((row["kind"], row["owner_id"]), {})
        amounts[row["slot_name"]] = row["total"]
    return {**found}


def groups_at_limit(
    groups: Iterable[ResourceGroup], session_type: str, owner_id: int, slots: ResourceSlots, now: datetime
) -> set[int]:
    """Return ids of the groups whose own limits would make such a session wait. One query at most."""
    limits = {
        group.pk: [each for each in active_limits(group, now) if each.limit.counts(session_type)]
        for group in groups
    }
    limited = [pk for pk, found in limits.items() if found]
    allocated = allocations_by_group(limited) if limited else {}
    return {
        pk
        for pk in limited
        if any(each.refuses(slots, allocated.get(pk, NOTHING_ALLOCATED), owner_id) for each in limits[pk])
    }
