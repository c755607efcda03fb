"""Free capacity of resource groups: the total over agents that accept sessions, and the agent with
the most free.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q

from accounts.limits import ScopeIds
from agents.core.states import AgentState
from agents.models import (
    Agent,
    AgentDevice,
    AgentImage,
    AgentSlot,
    Reservation,
    ReservedAgent,
    ResourceGroupQuerySet,
)
from agents.selectors import usable_resource_groups
from common import clock
from common.actors import Actor
from common.values.resources import CPU, MEM, ResourceSlots

NOTHING = ResourceSlots()
IDLE = (AgentState.LOST, AgentState.DRAINING, AgentState.MAINTENANCE)

_AGENT, _SLOT = Agent._meta.db_table, AgentSlot._meta.db_table
# True if the devices are unknown, one has the requested share free, or enough are wholly free.
_KNOWN = f"SELECT FROM {AgentDevice._meta.db_table} device WHERE device.agent_id = agent.id AND device.slot_name = asked.name"
_HAS_DEVICES = f"""(
    NOT EXISTS ({_KNOWN})
    OR asked.amount < 1000 AND EXISTS ({_KNOWN} AND device.is_present AND device.occupied <= 1000 - asked.amount)
    OR asked.amount >= 1000 AND asked.amount <= 1000 * (
        {_KNOWN.replace("SELECT", "SELECT count(*)")} AND device.is_present AND device.occupied = 0
    )
)"""
# Reserved for others now, or for anyone before a session that starts now would end.
_CLOSED = f"""
    SELECT FROM {ReservedAgent._meta.db_table} machine
    JOIN {Reservation._meta.db_table} reserved ON reserved.id = machine.reservation_id
    WHERE machine.agent_id = agent.id AND reserved.ends_at > %(now)s AND reserved.starts_at < %(until)s AND (
        reserved.starts_at > %(now)s OR
        (reserved.domain_id = %(domain)s OR reserved.project_id = %(project)s OR reserved.user_id = %(user)s) IS NOT TRUE
    )
"""
_ASKED = {"state": AgentState.CONNECTED.value, "cpu": CPU, "mem": MEM}
AMOUNTS = f"""
    SELECT agent.resource_group_id, slot.slot_name, sum(slot.capacity + slot.surplus), sum(slot.occupied), sum(slot.capacity)
    FROM {_SLOT} slot JOIN {_AGENT} agent ON agent.id = slot.agent_id
    WHERE agent.state = %(state)s GROUP BY 1, 2
"""
WIDEST = f"""
    WITH machine AS (
        SELECT agent.resource_group_id AS group_id, agent.name,
            jsonb_object_agg(slot.slot_name, slot.free)::text AS free,
            sum(slot.free) FILTER (WHERE slot.slot_name NOT IN (%(cpu)s, %(mem)s)) AS devices,
            max(slot.free) FILTER (WHERE slot.slot_name = %(cpu)s) AS cpu,
            max(slot.free) FILTER (WHERE slot.slot_name = %(mem)s) AS mem
        FROM (
            SELECT agent_id, slot_name, greatest(0, least(capacity, capacity + surplus - occupied)) AS free FROM {_SLOT}
        ) AS slot JOIN {_AGENT} agent ON agent.id = slot.agent_id
        WHERE agent.state = %(state)s GROUP BY agent.id
    )
    SELECT DISTINCT ON (group_id) group_id, name, free FROM machine WHERE cpu > 0 AND mem > 0
    ORDER BY group_id, coalesce(devices, 0) DESC, cpu::float * mem DESC, name
"""

ROOMY = f"""
    SELECT known.id FROM unnest(%(groups)s::bigint[]) AS known (id)
    WHERE EXISTS (
        SELECT FROM {_AGENT} agent
        WHERE agent.resource_group_id = known.id AND agent.state = %(state)s AND agent.architecture = %(architecture)s
          AND %(model)s IN ('', agent.device_model)
          AND (%(image)s = '' OR EXISTS (
            SELECT FROM {AgentImage._meta.db_table} image WHERE image.agent_id = agent.id AND image.reference = %(image)s
          ))
          AND NOT EXISTS ({_CLOSED}) AND NOT EXISTS (
            SELECT FROM unnest(%(names)s::text[], %(amounts)s::bigint[]) AS asked (name, amount)
            WHERE NOT EXISTS (
                SELECT FROM {_SLOT} slot
                WHERE slot.agent_id = agent.id AND slot.slot_name = asked.name
                  AND slot.capacity >= asked.amount AND slot.occupied <= slot.capacity + slot.surplus - asked.amount
                  AND (asked.name IN (%(cpu)s, %(mem)s) OR {_HAS_DEVICES})
            )
        )
    )
"""


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """Present capacity of a group, in base units.

    `agents` accept sessions, `idle_agents` do not; the amounts cover the former and include
    over-commit. A session of up to `widest` starts at once on `widest_agent`, which is "" if no
    agent has free capacity; none starts if the group is not active.
    """

    id: int
    name: str
    agents: int
    idle_agents: int
    capacity: ResourceSlots
    occupied: ResourceSlots
    widest_agent: str
    widest: ResourceSlots
    is_active: bool = True
    real: ResourceSlots = NOTHING  # without over-commit

    @property
    def free(self) -> ResourceSlots:
        left = self.capacity - self.occupied
        return ResourceSlots({name: max(0, amount) for name, amount in left.items()})


def group_rooms(actor: Actor) -> list[GroupRoom]:
    """Return the capacity of the groups that the actor may use, the default group first, also of
    groups without agents. 3 queries with one row per slot and group.
    """
    return rooms_in(usable_resource_groups(actor).order_by("-is_default", "name"))


def rooms_in(groups: ResourceGroupQuerySet) -> list[GroupRoom]:
    """Return the capacity of these groups, in their order."""
    return rooms_of(with_takers(groups))


def with_takers(groups: ResourceGroupQuerySet) -> ResourceGroupQuerySet:
    """Annotate each group with `taking` and `idle`, its numbers of agents that accept sessions and
    that do not.
    """
    return groups.annotate(
        taking=Count("agents", filter=Q(agents__state=AgentState.CONNECTED)),
        idle=Count("agents", filter=Q(agents__state__in=IDLE)),
    )


def rooms_of(groups: Iterable[Any]) -> list[GroupRoom]:
    """Return the capacity of groups that were annotated by `with_takers`. 2 queries."""
    amounts, widest = _amounts(), _widest()
    found = []
    for group in groups:
        capacity, occupied, real = amounts.get(group.pk, ({}, {}, {}))
        agent, free = widest.get(group.pk, ("", {}))
        found.append(
            GroupRoom(
                id=group.pk,
                name=group.name,
                agents=group.taking,
                idle_agents=group.idle,
                capacity=ResourceSlots(capacity),
                occupied=ResourceSlots(occupied),
                widest_agent=agent,
                widest=ResourceSlots(free),
                is_active=group.is_active,
                real=ResourceSlots(real),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Sought:
    """Requirements of a session that should start now, in base units.

    `scopes` decide which reserved agents it may use; `lasts` is its expected duration; `image` must
    be on the agent, and is "" if a registry has it.
    """

    slots: ResourceSlots
    architecture: str
    scopes: ScopeIds
    lasts: timedelta
    device_model: str = ""
    image: str = ""


def with_room(group_ids: Collection[int], sought: Sought) -> set[int]:
    """Return the groups in which one agent can take the session now. One query, which stops at the
    first match of each group; none without groups.
    """
    if not group_ids:
        return set()
    now = clock.now()
    asked: dict[str, Any] = {
        "groups": list(group_ids),
        **_ASKED,
        "architecture": sought.architecture,
        "model": sought.device_model,
        "image": sought.image,
        "names": list(sought.slots),
        "amounts": list(sought.slots.values()),
        "now": now,
        "until": now + sought.lasts,
        "domain": sought.scopes.domain,
        "project": sought.scopes.project,
        "user": sought.scopes.user,
    }
    with connection.cursor() as cursor:
        cursor.execute(ROOMY, asked)
        return {group_id for (group_id,) in cursor.fetchall()}


def _amounts() -> dict[int, tuple[dict[str, int], dict[str, int], dict[str, int]]]:
    """Return {group id: (capacity including over-commit, allocated, capacity)}."""
    found: dict[int, tuple[dict[str, int], dict[str, int], dict[str, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(AMOUNTS, _ASKED)
        for group_id, slot_name, *told in cursor.fetchall():
            for amounts, amount in zip(found.setdefault(group_id, ({}, {}, {})), told, strict=True):
                amounts[slot_name] = int(amount)
    return found


def _widest() -> dict[int, tuple[str, dict[str, int]]]:
    """Return {group id: (agent name, free slots)} for the agent with the most free devices, then
    the largest product of free cores and memory, among those with some of both.
    """
    with connection.cursor() as cursor:
        cursor.execute(WIDEST, _ASKED)
        return {group_id: (name, json.loads(free)) for group_id, name, free in cursor.fetchall()}
