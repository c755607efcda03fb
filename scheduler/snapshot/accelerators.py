"""Read the accelerators of a resource group as the engine's `SlotDevices`, and whose parts they are."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.db.models import Exists, OuterRef

from agents.core.isolation import SharingMode
from agents.models import RETURNING, Agent, AgentDevice, ResourceGroup, SharingRule
from agents.vendors.sharing import vendors_with
from common.db.rows import read_rows
from common.values.resources import MILLI
from scheduler.engine import AgentView, PartlyFreeDevice, SlotDevices
from scheduler.engine.accelerators import fractional_slot

HAS_DEVICES = Exists(AgentDevice.objects.filter(agent__resource_group=OuterRef("pk")))
NOBODY = -1
# Includes slots that an agent reports but does not offer; `reader._offered` removes these.
_DEVICES = f"""
    WITH rule AS MATERIALIZED (
        SELECT model, mode FROM {SharingRule._meta.db_table} WHERE group_id = %(group)s
    ), device AS (
        SELECT device.*,
               coalesce(device.sharing_project_id, CASE WHEN device.vendor = ANY(%(mps_vendors)s)
                   AND coalesce(own.mode, usual.mode) = %(mps)s THEN {NOBODY} END) AS sharer,
               device.link_group IS NOT NULL AND row_number() OVER (linked ORDER BY device.id) = 1 AS is_first,
               count(*) FILTER (WHERE device.is_usable) OVER linked AS linked,
               count(*) FILTER (WHERE device.is_usable AND device.occupied = 0) OVER linked AS linked_free
        FROM {AgentDevice._meta.db_table} AS device
        JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
        LEFT JOIN rule AS own ON own.model = device.model AND own.model <> ''
        LEFT JOIN rule AS usual ON usual.model = ''
        WHERE agent.resource_group_id = %(group)s
        WINDOW linked AS (PARTITION BY device.agent_id, device.slot_name, device.link_group)
    )
    SELECT agent_id, slot_name, count(*) FILTER (WHERE is_usable) AS total,
           count(*) FILTER (WHERE is_usable AND occupied = 0) AS whole,
           array_agg(ARRAY[id, %(whole)s - occupied] ORDER BY id)
               FILTER (WHERE is_usable AND occupied > 0 AND occupied < %(whole)s) AS shared,
           array_agg(ARRAY[id, sharer])
               FILTER (WHERE sharer IS NOT NULL AND occupied > 0 AND occupied < %(whole)s) AS sharers,
           array_agg(linked ORDER BY link_group) FILTER (WHERE is_first) AS links,
           array_agg(linked_free ORDER BY link_group) FILTER (WHERE is_first) AS free_links,
           count(*) FILTER (WHERE is_present AND withheld = ANY(%(returning)s)) AS withheld
    FROM device GROUP BY agent_id, slot_name ORDER BY agent_id, slot_name
"""


class _DeviceCounts(NamedTuple):
    """Row of `_DEVICES`. `shared`: id and free rest of each shared device; `sharers`: id and project of
    those of which one project alone gets parts. `links`, `free_links`: as in `SlotDevices`.
    """

    agent_id: int
    slot_name: str
    total: int
    whole: int
    shared: list[tuple[int, int]] | None
    sharers: list[tuple[int, int]] | None
    links: list[int] | None
    free_links: list[int] | None
    withheld: int


class GroupDevices(NamedTuple):
    """Devices of each agent, one entry per slot, and the projects (`NOBODY`: of sessions from before the
    rule) of those of which one project alone gets parts.
    """

    by_agent: dict[int, tuple[SlotDevices, ...]]
    sharers: dict[int, Mapping[int, int]]


def read_devices(group: ResourceGroup) -> GroupDevices:
    """Return the devices of the group. 1 query."""
    found: dict[int, list[SlotDevices]] = {}
    sharers: dict[int, dict[int, int]] = {}
    parameters = {
        "group": group.pk,
        "whole": MILLI,
        "mps": SharingMode.MPS.value,
        "mps_vendors": vendors_with(SharingMode.MPS),
        "returning": [*RETURNING],
    }
    for row in read_rows(_DeviceCounts, _DEVICES, parameters):
        if row.sharers:
            sharers.setdefault(row.agent_id, {}).update(dict(row.sharers))
        shared = tuple([PartlyFreeDevice(device_id, free) for device_id, free in row.shared or ()])
        links, free_links = tuple(row.links or ()), tuple(row.free_links or ())
        devices = SlotDevices(row.slot_name, row.total, row.whole, shared, links, free_links, row.withheld)
        found.setdefault(row.agent_id, []).append(devices)
    alike: dict[tuple[SlotDevices, ...], tuple[SlotDevices, ...]] = {}  # most agents share one object
    by_agent = {
        agent_id: alike.setdefault(each, each)
        for agent_id, each in zip(found, map(tuple, found.values()), strict=True)
    }
    return GroupDevices(by_agent, {**sharers})


def closed_agents(
    agents: Iterable[AgentView],
    sharers: Mapping[int, Mapping[int, int]],
    project_id: int,
    slots: Mapping[str, int],
) -> frozenset[int]:
    """Return the agents that have room for the part of a device among `slots` only on devices of which
    other projects have parts.
    """
    name = fractional_slot(slots) if sharers else None
    if name is None:
        return frozenset()
    return frozenset(
        [
            agent.id
            for agent in agents
            if agent.id in sharers
            and _is_closed(agent.devices_of(name), sharers[agent.id], project_id, slots[name])
        ]
    )


def _is_closed(devices: SlotDevices | None, sharers: Mapping[int, int], project_id: int, amount: int) -> bool:
    if devices is None or devices.whole:
        return False
    fitting = [device.id for device in devices.open if device.free >= amount]
    return bool(fitting) and all(sharers.get(each, project_id) != project_id for each in fitting)
