"""Free capacity of resource groups: the total over agents that accept sessions, and the agent with
the most free.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, F, Q, Sum

from accounts.limits import ScopeIds
from agents.core.sandboxes import Sandbox
from agents.core.states import AgentState
from agents.models import (
    Agent,
    AgentDevice,
    AgentSlot,
    Reservation,
    ReservedAgent,
    ResourceGroup,
    ResourceGroupQuerySet,
)
from agents.selectors import usable_resource_groups
from common import clock
from common.actors import Actor
from common.values.resources import CPU, MEM, ResourceSlots

UNAVAILABLE = (AgentState.LOST, AgentState.DRAINING, AgentState.MAINTENANCE)

_AGENT, _SLOT = Agent._meta.db_table, AgentSlot._meta.db_table
# True if the devices are unknown, one has the requested share free, or enough are wholly free.
_KNOWN = f"SELECT FROM {AgentDevice._meta.db_table} device WHERE device.agent_id = agent.id AND device.slot_name = wanted.name"
_HAS_DEVICES = f"""(
    NOT EXISTS ({_KNOWN})
    OR wanted.amount < 1000 AND EXISTS ({_KNOWN} AND device.is_usable AND device.occupied <= 1000 - wanted.amount)
    OR wanted.amount >= 1000 AND wanted.amount <= 1000 * (
        {_KNOWN.replace("SELECT", "SELECT count(*)")} AND device.is_usable AND device.occupied = 0
    )
)"""
_HAS_LINKS = f"""(
    NOT %(linked)s OR wanted.amount <= 1000 OR EXISTS (
        {_KNOWN} AND device.is_usable AND device.occupied = 0 AND device.link_group IS NOT NULL
        GROUP BY device.link_group HAVING 1000 * count(*) >= wanted.amount
    )
)"""
# Reserved for others now, or for anyone before a session that starts now would end.
_RESERVED = f"""
    SELECT FROM {ReservedAgent._meta.db_table} machine
    JOIN {Reservation._meta.db_table} reserved ON reserved.id = machine.reservation_id
    WHERE machine.agent_id = agent.id AND reserved.ends_at > %(now)s AND reserved.starts_at < %(until)s AND (
        reserved.starts_at > %(now)s OR
        (reserved.domain_id = %(domain)s OR reserved.project_id = %(project)s OR reserved.user_id = %(user)s) IS NOT TRUE
    )
"""
_HAS_SANDBOX = f"(known.sandbox = '{Sandbox.RUNC}' OR known.sandbox = ANY(agent.sandboxes))"
_PARAMETERS = {"state": AgentState.CONNECTED.value, "cpu": CPU, "mem": MEM}
_LARGEST_FREE = f"""
    WITH machine AS (
        SELECT agent.resource_group_id AS group_id, agent.name,
            jsonb_object_agg(slot.slot_name, slot.free)::text AS free,
            sum(slot.free) FILTER (WHERE slot.slot_name NOT IN (%(cpu)s, %(mem)s)) AS devices,
            max(slot.free) FILTER (WHERE slot.slot_name = %(cpu)s) AS cpu,
            max(slot.free) FILTER (WHERE slot.slot_name = %(mem)s) AS mem
        FROM (
            SELECT agent_id, slot_name, greatest(0, least(capacity, capacity + surplus - occupied)) AS free FROM {_SLOT}
        ) AS slot JOIN {_AGENT} agent ON agent.id = slot.agent_id
        JOIN {ResourceGroup._meta.db_table} AS known ON known.id = agent.resource_group_id
        WHERE agent.state = %(state)s AND {_HAS_SANDBOX} GROUP BY agent.id
    )
    SELECT DISTINCT ON (group_id) group_id, name, free FROM machine WHERE cpu > 0 AND mem > 0
    ORDER BY group_id, coalesce(devices, 0) DESC, cpu::float * mem DESC, name
"""

_FITTING_GROUPS = f"""
    SELECT known.id FROM {ResourceGroup._meta.db_table} AS known
    WHERE known.id = ANY(%(groups)s::bigint[]) AND EXISTS (
        SELECT FROM {_AGENT} agent
        WHERE {_HAS_SANDBOX} AND agent.resource_group_id = known.id AND agent.state = %(state)s AND agent.architecture = %(architecture)s
          AND %(model)s IN ('', agent.device_model) AND agent.device_mem_bytes >= %(mem_bytes)s
          AND agent.device_api_version >= %(api_version)s AND agent.storage_hosts @> %(storage_hosts)s::varchar[]
          AND NOT EXISTS ({_RESERVED}) AND NOT EXISTS (
            SELECT FROM unnest(%(names)s::text[], %(amounts)s::bigint[]) AS wanted (name, amount)
            WHERE NOT EXISTS (
                SELECT FROM {_SLOT} slot
                WHERE slot.agent_id = agent.id AND slot.slot_name = wanted.name
                  AND slot.capacity >= wanted.amount AND slot.occupied <= slot.capacity + slot.surplus - wanted.amount
                  AND (wanted.name IN (%(cpu)s, %(mem)s) OR {_HAS_DEVICES} AND {_HAS_LINKS})
            )
        )
    )
"""


@dataclass(frozen=True, slots=True)
class GroupCapacity:
    """Present capacity of a group, in base units.

    `agents` accept sessions, `unavailable_agents` do not, by their state or because they lack the group's
    sandbox; the amounts cover the former. `capacity`
    includes over-commit, `physical` does not. A session of up to `largest_free` starts at once on
    `largest_free_agent`, which is "" if no agent has free capacity; none starts if the group is not
    active.
    """

    id: int
    name: str
    is_active: bool
    agents: int
    unavailable_agents: int
    capacity: ResourceSlots
    physical: ResourceSlots
    occupied: ResourceSlots
    largest_free_agent: str
    largest_free: ResourceSlots

    @property
    def free(self) -> ResourceSlots:
        left = self.capacity - self.occupied
        return ResourceSlots({name: max(0, amount) for name, amount in left.items()})


def usable_group_capacities(actor: Actor) -> list[GroupCapacity]:
    """Return the capacity of the groups that the actor may use, the default group first, also of
    groups without agents. 3 queries with one row per slot and group.
    """
    return group_capacities(usable_resource_groups(actor).order_by("-is_default", "name"))


def group_capacities(groups: ResourceGroupQuerySet) -> list[GroupCapacity]:
    """Return the capacity of these groups, in their order. 3 queries."""
    return annotated_capacities(with_availability(groups))


def with_availability(groups: ResourceGroupQuerySet) -> ResourceGroupQuerySet:
    """Annotate each group with `available` and `unavailable`, its numbers of agents that accept
    sessions and that do not.
    """
    has_sandbox = Q(sandbox=Sandbox.RUNC) | Q(agents__sandboxes__contains=[F("sandbox")])
    is_connected = Q(agents__state=AgentState.CONNECTED)
    return groups.annotate(
        available=Count("agents", filter=is_connected & has_sandbox),
        unavailable=Count("agents", filter=Q(agents__state__in=UNAVAILABLE) | is_connected & ~has_sandbox),
    )


def annotated_capacities(groups: Iterable[Any]) -> list[GroupCapacity]:
    """Return the capacity of groups that were annotated by `with_availability`. 2 queries."""
    group_sandbox = "agent__resource_group__sandbox"
    has_sandbox = Q(**{group_sandbox: Sandbox.RUNC}) | Q(agent__sandboxes__contains=[F(group_sandbox)])
    slots = AgentSlot.objects.filter(has_sandbox, agent__state=AgentState.CONNECTED).order_by()
    rows = slots.values("agent__resource_group_id", "slot_name").annotate(
        total=Sum(F("capacity") + F("surplus")), physical=Sum("capacity"), allocated=Sum("occupied")
    )
    by_group: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_group[row["agent__resource_group_id"]].append(row)
    largest_free = _largest_free()

    def usable_capacity(group: Any) -> GroupCapacity:
        total, physical, allocated = (
            ResourceSlots({row["slot_name"]: int(row[column]) for row in by_group[group.pk]})
            for column in ("total", "physical", "allocated")
        )
        agent, free = largest_free.get(group.pk, ("", {}))
        return GroupCapacity(
            group.pk, group.name, group.is_active, group.available, group.unavailable,
            capacity=total, physical=physical, occupied=allocated,
            largest_free_agent=agent, largest_free=ResourceSlots(free),
        )  # fmt: skip

    return [usable_capacity(group) for group in groups]


@dataclass(frozen=True, slots=True)
class SessionRequirements:
    """Requirements of a session that should start now, in base units.

    `scopes` decide which reserved agents it may use; `duration` is the expected one. The agent
    reaches the `storage_hosts`.
    """

    slots: ResourceSlots
    architecture: str
    scopes: ScopeIds
    duration: timedelta
    device_model: str = ""
    device_mem_bytes: int = 0
    device_api_version: int = 0
    linked_devices: bool = False
    storage_hosts: Collection[str] = ()


def groups_with_capacity(group_ids: Collection[int], requirements: SessionRequirements) -> set[int]:
    """Return the groups in which one agent can take the session now. One query, which stops at the
    first match of each group; none without groups.
    """
    if not group_ids:
        return set()
    now = clock.now()
    parameters: dict[str, Any] = {
        "groups": list(group_ids),
        **_PARAMETERS,
        "architecture": requirements.architecture,
        "model": requirements.device_model,
        "mem_bytes": requirements.device_mem_bytes,
        "api_version": requirements.device_api_version,
        "linked": requirements.linked_devices,
        "storage_hosts": list(requirements.storage_hosts),
        "names": list(requirements.slots),
        "amounts": list(requirements.slots.values()),
        "now": now,
        "until": now + requirements.duration,
        "domain": requirements.scopes.domain,
        "project": requirements.scopes.project,
        "user": requirements.scopes.user,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FITTING_GROUPS, parameters)
        return {group_id for (group_id,) in cursor.fetchall()}


def _largest_free() -> dict[int, tuple[str, dict[str, int]]]:
    """Return {group id: (agent name, free slots)} for the agent with the most free devices, then
    the largest product of free cores and memory, among those with some of both.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LARGEST_FREE, _PARAMETERS)
        return {group_id: (name, json.loads(free)) for group_id, name, free in cursor.fetchall()}
