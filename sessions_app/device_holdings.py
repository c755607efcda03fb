"""Who holds which accelerators, from the ledger."""

from collections.abc import Collection

from django.db import connection

from agents.models import AgentDevice
from sessions_app.device_use import Held
from sessions_app.models import KernelAllocation

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
