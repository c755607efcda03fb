"""Kinds of accelerators in a resource group, to check what requests demand of them."""

from dataclasses import dataclass

from django.db import connection

from agents.core.states import AgentState
from agents.models import Agent, AgentDevice, ResourceGroup

# DISTINCT, because a thousand machines have a few kinds of devices.
_KINDS = f"""
    SELECT DISTINCT device.slot_name, agent.device_model, device.model, device.vendor,
           min(device.mem_bytes) OVER machine, min(device.api_version) OVER machine,
           CASE WHEN device.link_group IS NULL THEN 1 ELSE count(*) OVER linked END
    FROM {AgentDevice._meta.db_table} AS device
    JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
    WHERE device.is_present AND agent.resource_group_id = %s AND agent.architecture = %s
        AND agent.state <> '{AgentState.RETIRED.value}'
    WINDOW machine AS (PARTITION BY device.agent_id, device.slot_name),
           linked AS (PARTITION BY device.agent_id, device.slot_name, device.link_group)
    ORDER BY 1, 2, 3, 4, 5, 6, 7
"""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Accelerators of one slot and model as one machine, or several alike, have them.

    `agent_model` is the model that requests name: "" if the machine has several. `mem_bytes` and
    `api_version` are the least of the slot's devices on the machine, 0 if unknown; `linked` is the
    number of devices that are linked with each other.
    """

    slot: str
    agent_model: str
    model: str
    vendor: str
    mem_bytes: int
    api_version: int
    linked: int


def device_kinds(group: ResourceGroup, architecture: str) -> list[DeviceKind]:
    """Return the kinds of present devices on agents in use of this architecture. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS, [group.pk, architecture])
        return [DeviceKind(*row) for row in cursor.fetchall()]
