"""Accelerators allocated to sessions, and their measurements."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from agents.models import Agent, AgentDevice
from common.values.resources import CPU, MEM, MILLI, format_amount
from sessions_app.metrics.accelerators import Held
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
class HeldDevice:
    """`share`: thousandths of it."""

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


def held_devices(session: ComputeSession) -> list[HeldDevice]:
    """In the order of its containers; empty where nobody knows them, or while it holds none. 1 query, none for one without devices."""
    if session.requested_slots.keys() <= {CPU, MEM}:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [session.pk])
        return [HeldDevice(*row) for row in cursor.fetchall()]


HELD = f"""
    SELECT allocation.agent_id, allocation.kernel_id, allocation.amount,
        json_object_agg(device.device_id, device.mem_bytes)
    FROM {KernelAllocation._meta.db_table} AS allocation
    JOIN {AgentDevice._meta.db_table} AS device ON device.id = ANY(allocation.devices)
    WHERE allocation.agent_id = ANY(%s) AND cardinality(allocation.devices) > 0
    GROUP BY allocation.id
"""


def held_on(agent_ids: Collection[int]) -> dict[int, list[Held]]:
    """{agent: what kernels hold of its devices}, of allocations that name them one by one. One query."""
    found: dict[int, list[Held]] = {}
    with connection.cursor() as cursor:
        cursor.execute(HELD, [list(agent_ids)])
        for agent_id, kernel_id, milli, devices in cursor.fetchall():
            found.setdefault(agent_id, []).append(Held(kernel_id, milli, devices))
    return found
