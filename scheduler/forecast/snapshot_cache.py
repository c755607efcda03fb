"""Cache of resource group snapshots in processes that answer requests, so that not every forecast
reads the database.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any

from django.db import connection

from accounts.core.limits import HIGHEST_PRIORITY, Level
from agents.core.states import AgentState
from agents.models import (
    Agent,
    AgentDevice,
    AgentSlot,
    Reservation,
    ReservedAgent,
    ResourceGroup,
    SharingRule,
)
from agents.selectors import SlotCapacity
from common import clock
from scheduler.engine import PendingSession, Planner, Quota, Snapshot, WhatIf
from scheduler.engine.accelerators import most_for_one_kernel
from scheduler.group_cache import GroupCache
from scheduler.models import SchedulerState
from scheduler.snapshot.placement_groups import group_keys, read_group_hosts
from scheduler.snapshot.reader import read_snapshot, rules_for
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import LIVE
from sessions_app.models import ComputeSession

LARGE_GROUP, TRUSTED_FOR_S = 200, 1.0
"""Groups with LARGE agents or more are checked for changes every TRUSTED_FOR_S at most, smaller
ones on each request.
"""
KEPT_FOR_S = 30.0
"""Maximum age of data that the fingerprint does not cover, such as allocations and shares of
tenants.
"""
# Fingerprint of all that decides placements in a group: agents, devices that get no allocations, sharing
# rules, live sessions, run state, reservations.
_MARK = f"""
    SELECT
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(agent.id, agent.state, agent.architecture, agent.device_model, agent.device_mem_bytes, agent.device_api_version, agent.storage_hosts, agent.sandboxes, agent.maintenance_ends_at, slot.slot_name, slot.capacity, slot.surplus, slot.occupied), 0))]
         FROM {Agent._meta.db_table} AS agent LEFT JOIN {AgentSlot._meta.db_table} AS slot ON slot.agent_id = agent.id
         WHERE agent.resource_group_id = %(group)s AND agent.state <> %(retired)s),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(ROW(device.id), 0))]
         FROM {Agent._meta.db_table} AS agent JOIN {AgentDevice._meta.db_table} AS device ON device.agent_id = agent.id
         WHERE agent.resource_group_id = %(group)s AND NOT device.is_usable),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(ROW(model, mode), 0))]
         FROM {SharingRule._meta.db_table} WHERE group_id = %(group)s),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(id, status, held_for, stops_at, priority, eligible_at, started_at, deadline_at), 0))]
         FROM {ComputeSession._meta.db_table}
         WHERE resource_group_id = %(group)s AND ended_at IS NULL AND status = ANY(%(live)s)),
        (SELECT ROW(head_ids, gathered)::text FROM {SchedulerState._meta.db_table} WHERE group_id = %(group)s),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(reserved.id, machine.agent_id, starts_at, ends_at, starts_at <= %(now)s, domain_id, project_id, user_id), 0))]
         FROM {Reservation._meta.db_table} AS reserved
         JOIN {ReservedAgent._meta.db_table} AS machine ON machine.reservation_id = reserved.id
         WHERE reserved.group_id = %(group)s AND ends_at > %(now)s)
"""
Fingerprint = tuple[Any, ...]


@dataclass(slots=True)
class BacklogThreshold:
    """Backlog threshold of a queue: the position behind which too many sessions wait for capacity
    to estimate a start. It stays valid while sessions are added behind it.
    """

    position: int = sys.maxsize  # that position, counted from 1, once known

    def is_exceeded(self, position: int) -> bool:
        return position > self.position


@dataclass(slots=True)
class CachedSnapshot:
    """Cached snapshot of one group with derived results. Use it with `lock` held."""

    snapshot: Snapshot
    fingerprint: Fingerprint
    seen_at: float  # by the monotonic clock: when it was read or last found unchanged
    lock: Lock = field(default_factory=Lock)
    ranges: dict[Any, StartRange | None] = field(default_factory=dict)  # by question
    backlog: BacklogThreshold = field(default_factory=BacklogThreshold)
    _planner: Planner = field(default_factory=Planner)
    _names: dict[int, str] = field(default_factory=dict)
    _rooms: dict[str, Mapping[str, SlotCapacity]] = field(default_factory=dict)

    def is_trusted(self, at: float) -> bool:
        return len(self.snapshot.agents) >= LARGE_GROUP and at - self.seen_at <= TRUSTED_FOR_S

    def what_if(self, asked: PendingSession, fresh: Collection[Quota], now: datetime) -> WhatIf:
        """Plan the next tick with this session added. `fresh`: current allowances of its scopes."""
        names = {*asked.scopes}
        others = (each for each in self.snapshot.quotas if each.key not in names)
        pending = (*self.snapshot.pending, asked)
        asked_too = replace(
            self.snapshot,
            pending=pending,
            quotas=(*others, *fresh),
            group_hosts={
                **self.snapshot.group_hosts,
                **read_group_hosts(self.snapshot.group_id, group_keys([asked])),
            },
        )
        return self._planner.what_if(asked_too, asked, now)

    def what_if_unchanged(self, now: datetime) -> WhatIf:
        """Plan the next tick for the pending sessions."""
        return self._planner.what_if(self.snapshot, None, now)

    def agent_name(self, agent_id: int) -> str:
        """Return the name of an agent of the snapshot, even if it has left the group. One query the
        first time.
        """
        if not self._names:
            agents = Agent.objects.filter(pk__in=[agent.id for agent in self.snapshot.agents])
            self._names.update(agents.values_list("pk", "name"))
        return self._names[agent_id]

    def rooms(self, architecture: str) -> Mapping[str, SlotCapacity]:
        """Return free and total amounts by slot on agents of this architecture."""
        if architecture not in self._rooms:
            self._rooms[architecture] = _rooms(self.snapshot, architecture)
        return self._rooms[architecture]


_snapshots = GroupCache[CachedSnapshot](for_s=KEPT_FOR_S)


def cached_snapshot(group: ResourceGroup, also: Collection[tuple[Level, int]]) -> CachedSnapshot:
    """Return the cached snapshot if it is unchanged (large groups: checked within TRUSTED_FOR_S),
    else a new one. One query or none if cached, else also those of read_snapshot. The caller has
    just read `group`, so changed rules apply at once.
    """
    found, at = _snapshots.get(group.pk), monotonic()
    if found is not None and found.snapshot.rules != rules_for(group, clock.now()):
        found = None
    if found is not None and found.is_trusted(at):
        return found
    mark = _fingerprint(group)
    # Which sessions are preemptible changes with data that the fingerprint does not cover.
    if found is not None and found.fingerprint == mark and group.preemptible_priority is None:
        found.seen_at = at
        return found
    made = CachedSnapshot(read_snapshot(group.pk, also, HIGHEST_PRIORITY), mark, seen_at=at)
    _snapshots.put(group.pk, made)
    return made


def clear_cache() -> None:
    """Clear the cache, as in a new process."""
    _snapshots.clear()


def _fingerprint(group: ResourceGroup) -> Fingerprint:
    """Return the fingerprint of the group. It is read before the snapshot, so later changes are
    noticed next time.
    """
    asked: dict[str, Any] = {
        "group": group.pk,
        "retired": AgentState.RETIRED.value,
        "live": sorted(LIVE),
        "now": clock.now(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_MARK, asked)
        return tuple(cursor.fetchone())


def _rooms(snapshot: Snapshot, architecture: str) -> dict[str, SlotCapacity]:
    agents = [agent for agent in snapshot.agents if agent.architecture == architecture]
    found = {}
    for name in sorted({name for agent in agents for name in agent.capacity}):
        promised = [agent.capacity[name] for agent in agents]
        held = [agent.capacity[name] - agent.free[name] for agent in agents]
        free = [
            min(agent.free[name], agent.largest[name], most_for_one_kernel(agent.devices, name))
            for agent in agents
            if agent.is_schedulable and name in agent.capacity
        ]
        largest = max(agent.largest[name] for agent in agents)
        found[name] = SlotCapacity(largest, max(0, max(free, default=0)), sum(promised), sum(held))
    return found
