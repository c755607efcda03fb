"""Assign devices to the kernels of a plan, by the engine's rules and the rows locked at commit."""

from collections import defaultdict
from collections.abc import Sequence

from agents.models import AgentDevice
from common.db.prepared import array_of, prepared_cursor, unseen
from common.values.resources import CPU, MEM
from scheduler.engine import KernelPlacement
from scheduler.engine.accelerators import Dealt, Device, DeviceTable, deal

_DEVICES = f"""
    SELECT agent_id, slot_name, is_present, occupied, id, link_group, numa_node FROM {AgentDevice._meta.db_table}
    WHERE agent_id = ANY({unseen("agents", "bigint")}) ORDER BY id
"""


def deal_devices(kernels: Sequence[KernelPlacement]) -> list[Dealt]:
    """Return the devices of each kernel, for the slots whose devices are known. The caller has
    locked the rows of the agents, which protects the set of devices, and of their slots, which
    protects the allocated parts. 1 query, none if no kernel asks for devices. Raises NoSuchDevices.
    """
    asked = sorted({each.agent_id for each in kernels if not each.slots.keys() <= {CPU, MEM}})
    if not asked:
        return [{}] * len(kernels)
    with prepared_cursor() as cursor:
        cursor.execute(_DEVICES, {"agents": array_of(asked)})
        rows = cursor.fetchall()
    tables = defaultdict[tuple[int, str], DeviceTable](DeviceTable)
    for agent_id, slot_name, is_present, occupied, *device in rows:
        table = tables[agent_id, slot_name]
        if is_present:
            table.add(Device(*device), occupied)
    return [
        deal(kernel.slots, {name: tables.get((kernel.agent_id, name)) for name in kernel.slots})
        for kernel in kernels
    ]
