"""Writes of accelerators, as reported by a machine or as simulated."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection
from django.db.models import Count, Q

from agents.accelerators.base import AcceleratorDevice
from agents.models import MODEL_LENGTH, Agent, AgentDevice, Withheld
from agents.vendors.selectors import known_vendor
from common import clock
from common.values.resources import MILLI

SIMULATED_LINKED = 4  # size of the link groups of a simulated machine
SIMULATED_MEM_BYTES = 80 * 2**30
_SIMULATE = f"""
    INSERT INTO {AgentDevice._meta.db_table}
        (agent_id, slot_name, device_id, index, model, mem_bytes, numa_node, link_group)
    SELECT agent_id, %(slot)s, %(slot)s || '-' || index, index, %(model)s, %(mem_bytes)s,
           index / %(linked)s, index / %(linked)s
    FROM unnest(%(agents)s::bigint[]) AS agent_id, generate_series(0, %(count)s - 1) AS index
    ORDER BY agent_id, index
"""
_REPORTED = (
    "slot_name", "index", "mem_bytes", "numa_node", "link_group", "vendor", "pci_address", "parent_id", "profile",
    "facts", "driver", "api_version",
)  # fmt: skip
_COLUMNS = (*_REPORTED, "model", "is_present", "missing_since")


def write_devices(agent: Agent, seen: Sequence[AcceleratorDevice], *, unknown: Collection[str] = ()) -> bool:
    """Write the reported devices of a locked agent; return True if anything changed. Rows of vendors
    whose devices are `unknown` stay as they are.

    A device that disappeared keeps its row as missing, without new allocations, and is the same device if
    it returns. Partitions come and go, and nobody looks for devices of a vendor whose description
    was deleted: they keep their rows only while they are allocated or set aside.
    """
    known = {row.device_id: row for row in agent.devices.order_by("pk").select_for_update(no_key=True)}
    reported = {device.device_id for device in seen}
    gone = [row for row in known.values() if row.device_id not in reported and row.vendor not in unknown]
    looked_for = {name for name in {row.vendor for row in gone} if known_vendor(name)}
    kept = [row for row in gone if _is_kept(row, looked_for)]
    dropped = [row.pk for row in gone if row not in kept]
    lost = [row.pk for row in kept if row.is_present]
    AgentDevice.objects.filter(pk__in=lost).update(is_present=False, missing_since=clock.now())
    AgentDevice.objects.filter(pk__in=dropped).delete()
    changed = [
        device for device in seen if _stored_values(known.get(device.device_id)) != _reported_values(device)
    ]
    AgentDevice.objects.bulk_create(
        [
            AgentDevice(
                agent=agent,
                device_id=device.device_id,
                **dict(zip(_COLUMNS, _reported_values(device), strict=True)),
            )
            for device in changed
        ],
        update_conflicts=True,
        unique_fields=("agent", "device_id"),
        update_fields=_COLUMNS,
    )
    return bool(lost or dropped or changed)


def _is_kept(row: AgentDevice, looked_for: Collection[str]) -> bool:
    is_set_aside = row.withheld in (Withheld.QUARANTINE, Withheld.ADMINISTRATOR)
    is_missing = not row.parent_id and row.vendor in looked_for
    return is_missing or bool(row.occupied) or is_set_aside


def usable_devices(agent: Agent) -> dict[str, int]:
    """Return the capacity by slot, in milli-devices, of the slots whose devices are known. One query."""
    rows = agent.devices.order_by().values_list("slot_name")
    return {name: MILLI * count for name, count in rows.annotate(count=Count("pk", filter=Q(is_usable=True)))}


def simulate_devices(agent_ids: Sequence[int], slot_name: str, count: int, model: str) -> None:
    """Create `count` devices on each of these agents, which have none yet, in link groups of four.
    One statement.
    """
    values: dict[str, Any] = {
        "agents": list(agent_ids),
        "slot": slot_name,
        "count": count,
        "model": model,
        "mem_bytes": SIMULATED_MEM_BYTES,
        "linked": SIMULATED_LINKED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SIMULATE, values)


def _reported_values(device: AcceleratorDevice) -> tuple[object, ...]:
    return (*(getattr(device, name) for name in _REPORTED), device.model[:MODEL_LENGTH], True, None)


def _stored_values(row: AgentDevice | None) -> tuple[object, ...] | None:
    return None if row is None else tuple(getattr(row, name) for name in _COLUMNS)
