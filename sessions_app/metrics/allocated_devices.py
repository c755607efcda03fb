"""Reads the accelerators that are allocated to sessions."""

from collections.abc import Collection
from dataclasses import dataclass

from agents.core.isolation import Isolation
from agents.models import AgentDevice
from common.values.resources import CPU, MEM, MILLI
from sessions_app.metrics.accelerators import DeviceAllocation
from sessions_app.models import ComputeSession, KernelAllocation


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """Accelerator allocated to a kernel. `share` is in thousandths of the device.

    `trouble` is why the device is withheld from new sessions, or the warning about it; "" if it is
    well. `isolation` is the protection from neighbours on the device as it was read back on the running
    container, and `isolation_note` why it is less than the group's rule says.
    """

    kernel: str
    agent: str
    slot_name: str
    index: int
    device_id: str
    model: str
    share: int
    mem_bytes: int = 0
    profile: str = ""
    trouble: str = ""
    isolation: Isolation = Isolation.UNKNOWN
    isolation_note: str = ""

    @property
    def is_whole(self) -> bool:
        return self.share == MILLI and not self.profile

    @property
    def percent(self) -> str:
        return f"{self.share * 100 / MILLI:g}"


def allocated_devices(session: ComputeSession) -> list[AllocatedDevice]:
    """Return the accelerators of the session in the order of its containers.

    Empty if their devices are not known individually, or before placement. Two queries, none for a
    session without accelerators.
    """
    if session.requested_slots.keys() <= {CPU, MEM}:
        return []
    allocations = KernelAllocation.objects.filter(kernel__session=session).select_related("kernel", "agent")
    rows = list(allocations.order_by("kernel__role", "kernel__index", "slot_name"))
    devices = AgentDevice.objects.order_by("index").in_bulk([pk for row in rows for pk in row.devices])
    return [
        AllocatedDevice(
            row.kernel.name, row.agent.name, row.slot_name, device.index, device.device_id, device.model,
            row.amount // len(row.devices), device.mem_bytes, device.profile,
            device.withheld_because or device.warning, Isolation(row.isolation), row.isolation_note,
        )
        for row in rows
        for device in devices.values()
        if device.pk in row.devices
    ]  # fmt: skip


def device_allocations(agent_ids: Collection[int]) -> dict[int, list[DeviceAllocation]]:
    """Return {agent id: allocations of its devices by kernel} where devices are known.

    Omits devices that are removed meanwhile. Two queries, one if there are none.
    """
    rows = list(KernelAllocation.objects.filter(agent__in=agent_ids).exclude(devices=[]))
    devices = AgentDevice.objects.in_bulk({pk for row in rows for pk in row.devices})
    found: dict[int, list[DeviceAllocation]] = {}
    for row in rows:
        known = [devices[pk] for pk in row.devices if pk in devices]
        if known:
            memory = {device.device_id: device.mem_bytes for device in known}
            found.setdefault(row.agent_id, []).append(DeviceAllocation(row.kernel_id, row.amount, memory))
    return found
