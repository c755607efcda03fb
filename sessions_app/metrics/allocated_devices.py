"""Reads the accelerators that are allocated to sessions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from agents.accelerators.description import tells_use, vendor_named
from agents.core.isolation import Isolation
from agents.metering.readings import present_uses, use_words
from agents.models import AgentDevice
from common import clock
from common.values.resources import CPU, MEM, MILLI
from sessions_app.metrics.accelerators import DeviceAllocation
from sessions_app.models import ComputeSession, KernelAllocation, KernelUsage


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """Accelerator allocated to a kernel. `share` is in thousandths of the device.

    `trouble` is why the device is withheld from new sessions, or the warning about it; "" if it is
    well. `isolation` is the protection from neighbours on the device as it was read back on the running
    container, and `isolation_note` why it is less than the group's rule says. `own_mem_bytes`: memory
    that the container's processes use there, if the driver tells. `use`: use now in words, only from
    `with_use`. `is_measured`: its vendor tells its use.
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
    pk: int = 0
    agent_id: int = 0
    own_mem_bytes: int | None = None
    use: str = ""
    is_measured: bool = True

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
    allocations = KernelAllocation.objects.filter(kernel__session=session).select_related(
        "kernel__usage", "agent"
    )
    rows = list(allocations.order_by("kernel__role", "kernel__index", "slot_name"))
    devices = AgentDevice.objects.order_by("index").in_bulk([pk for row in rows for pk in row.devices])
    return [
        AllocatedDevice(
            row.kernel.name, row.agent.name, row.slot_name, device.index, device.device_id, device.model,
            row.amount // len(row.devices), device.mem_bytes, device.profile,
            device.withheld_because or device.warning, Isolation(row.isolation), row.isolation_note,
            device.pk, device.agent_id, _own_memory(row, device), is_measured=tells_use(device.vendor),
        )
        for row in rows
        for device in devices.values()
        if device.pk in row.devices
    ]  # fmt: skip


def with_use(devices: Sequence[AllocatedDevice]) -> list[AllocatedDevice]:
    """Return the devices with their present use in words. One query, none without devices."""
    uses = present_uses({device.agent_id for device in devices}, clock.now()) if devices else {}
    return [
        replace(device, use=use_words(uses[device.pk], device.mem_bytes)) if device.pk in uses else device
        for device in devices
    ]


def _own_memory(row: KernelAllocation, device: AgentDevice) -> int | None:
    usage: KernelUsage | None = getattr(row.kernel, "usage", None)
    return None if usage is None else usage.own_device_mem.get(str(device.pk))


def _judged_memory(device: AgentDevice) -> int | None:
    vendor = vendor_named(device.vendor) if device.vendor else None
    return None if vendor is not None and vendor.measure.idle.when_held else device.mem_bytes


def device_allocations(agent_ids: Collection[int]) -> list[DeviceAllocation]:
    """Return the allocations of devices of these machines by kernel, where devices are known.

    Omits devices that are removed meanwhile. Two queries, one if there are none.
    """
    rows = list(KernelAllocation.objects.filter(agent__in=agent_ids).exclude(devices=[]))
    devices = AgentDevice.objects.in_bulk({pk for row in rows for pk in row.devices})
    return [
        DeviceAllocation(row.kernel_id, row.amount, memory)
        for row in rows
        if (memory := {pk: _judged_memory(devices[pk]) for pk in row.devices if pk in devices})
    ]
