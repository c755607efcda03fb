"""Read the limits of a resource group as allowances of the engine: one for all of its sessions, one
per owner.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

from agents.models import ResourceGroup
from scheduler.engine import Quota
from scheduler.engine.policy.quota_tracker import GROUP, GROUP_USER
from sessions_app.limits.group_limits import (
    NOTHING_ALLOCATED,
    ActiveLimit,
    Allocated,
    active_limits,
    allocations_by_group,
)

PREFIX = "group-limit"


class GroupLimits:
    """Limits of a group that are in force at one instant; false if there are none. `keys_for`
    collects the owners, so that `allowances` reads the use of all of them in one query.
    """

    def __init__(self, group: ResourceGroup, now: datetime) -> None:
        self._group_id = group.pk
        self._limits = active_limits(group, now)
        self._owners: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._limits)

    def keys_for(self, session_type: str, owner_id: int, slots: Mapping[str, int]) -> tuple[str, ...]:
        """Return the keys of the allowances that count such a session: shared limits first, then
        its owner's.
        """
        self._owners.add(owner_id)
        counting = [each for each in self._limits if each.limit.counts(session_type)]
        together = [_key(each) for each in counting if not slots.keys().isdisjoint(each.limit.together)]
        own = [_key(each, owner_id) for each in counting if not slots.keys().isdisjoint(each.limit.each)]
        return (*together, *own)

    def quotas(self) -> list[Quota]:
        """Return the shared allowances and those of the owners collected so far, with their current
        use. One query, none if no limit is in force.
        """
        return [allowance for each in self._limits for allowance in self._quotas(each)]

    def _quotas(self, each: ActiveLimit) -> Iterator[Quota]:
        limit, used, until = each.limit, each.used(self._allocated), each.until
        if limit.together:
            yield Quota(_key(each), GROUP, limit.name, limit.together, used.together, until=until)
        for owner_id in sorted(self._owners) if limit.each else ():
            key, own = _key(each, owner_id), used.by_owner[owner_id]
            yield Quota(key, GROUP_USER, limit.name, limit.each, own, until=until)

    @cached_property
    def _allocated(self) -> Allocated:
        return allocations_by_group([self._group_id]).get(self._group_id, NOTHING_ALLOCATED)


def texts_in_force(group: ResourceGroup, now: datetime) -> tuple[str, ...]:
    """Return texts that are equal as long as the same limits are in force."""
    return tuple([repr(each) for each in active_limits(group, now)])


def _key(each: ActiveLimit, owner_id: int | None = None) -> str:
    return f"{PREFIX}:{each.number}" if owner_id is None else f"{PREFIX}:{each.number}:{owner_id}"
