"""Assign devices to the kernels of a plan, by the engine's rules and the rows locked at commit."""

from collections import defaultdict
from collections.abc import Sequence

from agents.models import AgentDevice
from common.values.resources import CPU, MEM
from scheduler.engine import KernelPlacement
from scheduler.engine.accelerators import Device, DeviceAssignment, DeviceTable, assign_devices


def assign_kernel_devices(kernels: Sequence[KernelPlacement]) -> list[DeviceAssignment]:
    """Return the devices of each kernel, for the slots whose devices are known. The caller has
    locked the rows of the agents, which protects the set of devices, and of their slots, which
    protects the allocated parts. 1 query, none if no kernel asks for devices. Raises NoSuchDevices.
    """
    asked = sorted({each.agent_id for each in kernels if not each.slots.keys() <= {CPU, MEM}})
    if not asked:
        return [{}] * len(kernels)
    columns = ("pk", "agent_id", "slot_name", "is_present", "occupied", "link_group", "numa_node")
    rows = AgentDevice.objects.filter(agent__in=asked).order_by("pk").values_list(*columns, named=True)
    tables = defaultdict[tuple[int, str], DeviceTable](DeviceTable)
    for row in rows:
        table = tables[row.agent_id, row.slot_name]
        if row.is_present:
            table.add(Device(row.pk, row.link_group, row.numa_node), row.occupied)
    return [
        assign_devices(kernel.slots, {name: tables.get((kernel.agent_id, name)) for name in kernel.slots})
        for kernel in kernels
    ]
