"""Reads the accelerators that are allocated to sessions."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from agents.models import Agent, AgentDevice
from common.values.resources import CPU, MEM, MILLI, format_amount
from sessions_app.metrics.accelerators import DeviceAllocation
from sessions_app.models import ComputeSession, Kernel, KernelAllocation

_HELD = f"""
    SELECT kernel.role || kernel.index, agent.name, device.slot_name, device.index, device.device_id, device.model,
           held.amount / cardinality(held.devices)
    FROM {Kernel._meta.db_table} AS kernel
    JOIN {KernelAllocation._meta.db_table} AS held ON held.kernel_id = kernel.id, unnest(held.devices) AS each (id)
    JOIN {AgentDevice._meta.db_table} AS device ON device.id = each.id
    JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
    WHERE kernel.session_id = %s ORDER BY kernel.role, kernel.index, device.slot_name, device.index
"""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """Accelerator allocated to a kernel. `share` is in thousandths of the device."""

    kernel: str
    agent: str
    slot_name: str
    index: int
    device_id: str
    model: str
    share: int

    def __str__(self) -> str:
        named = f"{self.slot_name} {self.index}" + (f" ({self.model})" if self.model else "")
        return named if self.share == MILLI else f"{named}: {format_amount(self.slot_name, self.share)}"


def allocated_devices(session: ComputeSession) -> list[AllocatedDevice]:
    """Return the accelerators of the session in the order of its containers.

    Empty if their devices are not known individually, or before placement. One query, none for a
    session without accelerators.
    """
    if session.requested_slots.keys() <= {CPU, MEM}:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [session.pk])
        return [AllocatedDevice(*row) for row in cursor.fetchall()]


HELD = f"""
    SELECT allocation.agent_id, allocation.kernel_id, allocation.amount,
        json_object_agg(device.device_id, device.mem_bytes)
    FROM {KernelAllocation._meta.db_table} AS allocation
    JOIN {AgentDevice._meta.db_table} AS device ON device.id = ANY(allocation.devices)
    WHERE allocation.agent_id = ANY(%s) AND cardinality(allocation.devices) > 0
    GROUP BY allocation.id
"""


def device_allocations(agent_ids: Collection[int]) -> dict[int, list[DeviceAllocation]]:
    """Return {agent id: allocations of its devices by kernel} where devices are known. One query."""
    found: dict[int, list[DeviceAllocation]] = {}
    with connection.cursor() as cursor:
        cursor.execute(HELD, [list(agent_ids)])
        for agent_id, kernel_id, milli, devices in cursor.fetchall():
            found.setdefault(agent_id, []).append(DeviceAllocation(kernel_id, milli, devices))
    return found
