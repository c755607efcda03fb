"""Which devices the kernels of a plan get: by the rules of the engine, on what locked rows say."""

from collections.abc import Sequence
from operator import itemgetter

from agents.device_models import AgentDevice
from common.prepared import prepared_cursor
from common.slots import CPU, MEM
from scheduler.engine import KernelPlacement
from scheduler.engine.devices import Dealt, Device, DeviceTable, deal

_LOCK_DEVICES = f"""
    SELECT agent_id, slot_name, is_present, occupied, id, link_group, numa_node FROM {AgentDevice._meta.db_table}
    WHERE agent_id = ANY(%(agents)s::bigint[]) ORDER BY id FOR NO KEY UPDATE
"""


def deal_devices(kernels: Sequence[KernelPlacement]) -> list[Dealt]:
    """For each kernel, the devices that it gets, of those slots whose devices are known. Holds the devices of these agents until commit,
    whose rows are locked before; 1 query, none where no kernel asks for devices. Raises NoSuchDevices."""
    asked = sorted({each.agent_id for each in kernels if not each.slots.keys() <= {CPU, MEM}})
    if not asked:
        return [{}] * len(kernels)
    with prepared_cursor() as cursor:
        cursor.execute(_LOCK_DEVICES, {"agents": asked})
        rows = cursor.fetchall()
    tables: dict[tuple[int, str], DeviceTable] = {}
    for agent_id, slot_name, is_present, occupied, *device in rows:
        table = tables.setdefault((agent_id, slot_name), DeviceTable())
        if is_present:
            table.add(Device(*device), occupied)
    return [
        deal(kernel.slots, {name: tables.get((kernel.agent_id, name)) for name in kernel.slots})
        for kernel in kernels
    ]


def columns_of(kernels: Sequence[KernelPlacement], dealt: Sequence[Dealt]) -> dict[str, list[object]]:
    """As arrays of one row for each slot of a kernel that devices give."""
    rows = [
        (kernel.kernel_id, name, "{" + ",".join(map(str, ids)) + "}")
        for kernel, of_kernel in zip(kernels, dealt, strict=True)
        for name, ids in of_kernel.items()
    ]
    names = ("dealt_kernels", "dealt_slots", "dealt_devices")
    return {name: list(map(itemgetter(number), rows)) for number, name in enumerate(names)}
