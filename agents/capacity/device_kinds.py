"""Kinds of accelerators in a resource group, to check what requests demand of them."""

from dataclasses import dataclass

from django.db import connection

from agents.core.states import AgentState
from agents.models import Agent, AgentDevice, ResourceGroup

# DISTINCT, because a thousand machines have a few kinds of devices.
_KINDS = f"""
    SELECT DISTINCT slot_name, agent_model, model, mem_bytes, api_version, count, linked FROM (
        SELECT agent_id, slot_name, agent_model, max(model) AS model, min(mem_bytes) AS mem_bytes,
               min(api_version) AS api_version, count(*) AS count, max(linked) AS linked
        FROM (
            SELECT device.agent_id, device.slot_name, agent.device_model AS agent_model, device.model,
                   device.mem_bytes, device.api_version,
                   CASE WHEN device.link_group IS NULL THEN 1 ELSE
                       count(*) OVER (PARTITION BY device.agent_id, device.slot_name, device.link_group) END AS linked
            FROM {AgentDevice._meta.db_table} AS device
            JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
            WHERE device.is_present AND agent.resource_group_id = %s AND agent.architecture = %s
                AND agent.state <> '{AgentState.RETIRED.value}'
        ) AS device
        GROUP BY agent_id, slot_name, agent_model
    ) AS kind
    ORDER BY slot_name, agent_model, mem_bytes
"""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Accelerators of one slot as one machine, or several alike, have them.

    `agent_model` is the model that requests name: "" if the machine has several. `mem_bytes` and
    `api_version` are the least of these devices, 0 if unknown; `linked` is the size of the largest
    group of linked ones.
    """

    slot: str
    agent_model: str
    model: str
    mem_bytes: int
    api_version: int
    count: int
    linked: int


def device_kinds(group: ResourceGroup, architecture: str) -> list[DeviceKind]:
    """Return the kinds of present devices on agents in use of this architecture. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS, [group.pk, architecture])
        return [DeviceKind(*row) for row in cursor.fetchall()]
