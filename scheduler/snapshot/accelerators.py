"""Read the accelerators of a resource group as the engine's `SlotDevices`."""

from django.db import connection
from django.db.models import Exists, OuterRef

from agents.models import Agent, AgentDevice, ResourceGroup
from common.values.resources import MILLI
from scheduler.engine import OpenDevice, SlotDevices

HAS_DEVICES = Exists(AgentDevice.objects.filter(agent__resource_group=OuterRef("pk")))
# Includes slots that an agent reports but does not offer; `reader._given` removes these.
_DEVICES = f"""
    SELECT device.agent_id, device.slot_name, count(*) FILTER (WHERE device.is_present),
           count(*) FILTER (WHERE device.is_present AND device.occupied = 0),
           array_agg(ARRAY[device.id, %(whole)s - device.occupied] ORDER BY device.id)
               FILTER (WHERE device.is_present AND device.occupied > 0 AND device.occupied < %(whole)s)
    FROM {AgentDevice._meta.db_table} AS device
    JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
    WHERE agent.resource_group_id = %(group)s
    GROUP BY device.agent_id, device.slot_name ORDER BY device.agent_id, device.slot_name
"""


def devices_in(group: ResourceGroup) -> dict[int, tuple[SlotDevices, ...]]:
    """Return the devices of each agent, one entry per slot, as {agent_id: devices}. 1 query."""
    found: dict[int, list[SlotDevices]] = {}
    alike: dict[tuple[object, ...], SlotDevices] = {}  # shares equal objects, as most agents are alike
    with connection.cursor() as cursor:
        cursor.execute(_DEVICES, {"group": group.pk, "whole": MILLI})
        for agent_id, *counts, shared in cursor.fetchall():
            if shared is None:
                devices = alike.setdefault(tuple(counts), SlotDevices(*counts))
            else:
                shares = tuple([OpenDevice(*each) for each in shared])
                devices = SlotDevices(*counts)._replace(open=shares)
            found.setdefault(agent_id, []).append(devices)
    kinds: dict[tuple[SlotDevices, ...], tuple[SlotDevices, ...]] = {}
    return {
        agent_id: kinds.setdefault(each, each) for agent_id, each in ((a, tuple(d)) for a, d in found.items())
    }
