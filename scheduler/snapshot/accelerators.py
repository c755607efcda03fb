"""Read the accelerators of a resource group as the engine's `SlotDevices`."""

from typing import NamedTuple

from django.db.models import Exists, OuterRef

from agents.models import Agent, AgentDevice, ResourceGroup
from common.db.rows import read_rows
from common.values.resources import MILLI
from scheduler.engine import PartlyFreeDevice, SlotDevices

HAS_DEVICES = Exists(AgentDevice.objects.filter(agent__resource_group=OuterRef("pk")))
# Includes slots that an agent reports but does not offer; `reader._offered` removes these.
_DEVICES = f"""
    WITH device AS (
        SELECT device.*,
               device.link_group IS NOT NULL AND row_number() OVER (linked ORDER BY device.id) = 1 AS is_first,
               count(*) FILTER (WHERE device.is_usable) OVER linked AS linked,
               count(*) FILTER (WHERE device.is_usable AND device.occupied = 0) OVER linked AS linked_free
        FROM {AgentDevice._meta.db_table} AS device
        JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
        WHERE agent.resource_group_id = %(group)s
        WINDOW linked AS (PARTITION BY device.agent_id, device.slot_name, device.link_group)
    )
    SELECT agent_id, slot_name, count(*) FILTER (WHERE is_usable) AS total,
           count(*) FILTER (WHERE is_usable AND occupied = 0) AS whole,
           array_agg(ARRAY[id, %(whole)s - occupied] ORDER BY id)
               FILTER (WHERE is_usable AND occupied > 0 AND occupied < %(whole)s) AS shared,
           array_agg(linked ORDER BY link_group) FILTER (WHERE is_first) AS links,
           array_agg(linked_free ORDER BY link_group) FILTER (WHERE is_first) AS free_links
    FROM device GROUP BY agent_id, slot_name ORDER BY agent_id, slot_name
"""


class _DeviceCounts(NamedTuple):
    """Row of `_DEVICES`. `shared`: id and free rest of each shared device. `links`, `free_links`: as
    in `SlotDevices`.
    """

    agent_id: int
    slot_name: str
    total: int
    whole: int
    shared: list[tuple[int, int]] | None
    links: list[int] | None
    free_links: list[int] | None


def read_devices(group: ResourceGroup) -> dict[int, tuple[SlotDevices, ...]]:
    """Return the devices of each agent, one entry per slot, as {agent_id: devices}. 1 query."""
    found: dict[int, list[SlotDevices]] = {}
    for row in read_rows(_DeviceCounts, _DEVICES, {"group": group.pk, "whole": MILLI}):
        shared = tuple([PartlyFreeDevice(device_id, free) for device_id, free in row.shared or ()])
        links, free_links = tuple(row.links or ()), tuple(row.free_links or ())
        devices = SlotDevices(row.slot_name, row.total, row.whole, shared, links, free_links)
        found.setdefault(row.agent_id, []).append(devices)
    alike: dict[tuple[SlotDevices, ...], tuple[SlotDevices, ...]] = {}  # most agents share one object
    return {
        agent_id: alike.setdefault(each, each)
        for agent_id, each in zip(found, map(tuple, found.values()), strict=True)
    }
