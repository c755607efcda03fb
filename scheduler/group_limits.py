"""The own limits of a resource group as the engine knows limits: an allowance of all its sessions, and one of each person there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from agents.models import ResourceGroup
from common import clock
from scheduler.engine import Allowance, Placement
from scheduler.engine.allowances import GROUP, GROUP_USER
from sessions_app.group_limits import NOTHING, Held, InForce, held_in, in_force, is_above

PREFIX = "group-limit"


class GroupLimits:
    """Those that hold at one instant; false where none does. Whose sessions' keys were asked for is remembered, so that what these people
    may hold is found out for all of them together."""

    def __init__(self, group: ResourceGroup, now: datetime, owner_ids: Iterable[int] = ()) -> None:
        self._group_id = group.pk
        self._limits = in_force(group, now)
        self._owners = set(owner_ids)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def keys_for(self, session_type: str, owner_id: int, slots: Mapping[str, int]) -> tuple[str, ...]:
        """What a session that asks for this counts against: limits of all, and then those of its owner."""
        self._owners.add(owner_id)
        counting = [each for each in self._limits if each.limit.counts(session_type)]
        together = [_key(each) for each in counting if not slots.keys().isdisjoint(each.limit.together)]
        own = [_key(each, owner_id) for each in counting if not slots.keys().isdisjoint(each.limit.each)]
        return (*together, *own)

    def allowances(self) -> list[Allowance]:
        """Of all sessions, and of these people, as it is now. One query, none where no limit holds."""
        return [allowance for each in self._limits for allowance in self._allowances(each)]

    def _allowances(self, each: InForce) -> Iterator[Allowance]:
        limit, used, until = each.limit, each.used(self._held), each.until
        if limit.together:
            yield Allowance(_key(each), GROUP, limit.name, limit.together, used.together, until=until)
        for owner_id in sorted(self._owners) if limit.each else ():
            key, own = _key(each, owner_id), used.by_owner[owner_id]
            yield Allowance(key, GROUP_USER, limit.name, limit.each, own, until=until)

    @cached_property
    def _held(self) -> Held:
        return held_in([self._group_id]).get(self._group_id, NOTHING)


def texts_in_force(group: ResourceGroup, now: datetime) -> tuple[str, ...]:
    """Others as soon as other limits hold."""
    return tuple([repr(each) for each in in_force(group, now)])


def broken_limit(group_id: int, placements: Iterable[Placement]) -> str:
    """The name of a limit of the group that these placements would exceed, were they committed now, for newcomers were placed since they were
    planned; "" if there is none. Ask with the plans of this resource group locked. Two queries, none where no limit was in force for any of them."""
    wanted: dict[str, Counter[str]] = {}
    for each in placements:
        for key in each.session.scopes:
            if key.startswith(PREFIX):
                wanted.setdefault(key, Counter()).update(each.session.needs.total)
    if not wanted:
        return ""
    owner_ids = {owner_id for key in wanted if (owner_id := _owner_in(key)) is not None}
    limits = GroupLimits(ResourceGroup.objects.get(pk=group_id), clock.now(), owner_ids)
    for allowance in limits.allowances():
        if is_above(allowance.limit, wanted.get(allowance.key, {}), allowance.held):
            return allowance.name
    return ""


def _key(each: InForce, owner_id: int | None = None) -> str:
    return f"{PREFIX}:{each.number}" if owner_id is None else f"{PREFIX}:{each.number}:{owner_id}"


def _owner_in(key: str) -> int | None:
    owner_id = key.split(":")[2:]
    return int(owner_id[0]) if owner_id else None
