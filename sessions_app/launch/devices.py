"""Accelerators of the containers that are being launched."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from agents.accelerators.grant import NO_DEVICES, DeviceGrant
from agents.machines.grants import DevicePart, allowed_extras, grant_devices, withhold_failed_devices
from agents.models import AgentDevice
from agents.runtime.port import DeviceUnavailable
from agents.sharing.device_groups import ensure_group
from common.values.resources import CPU, MEM
from sessions_app.models import ComputeSession, Kernel

PartsByKernel = Mapping[UUID, Sequence[DevicePart]]


def allocated_parts(kernels: Sequence[Kernel]) -> PartsByKernel:
    """Return the devices of each kernel that has some. One query, none without accelerators; the
    allocations must be loaded.
    """
    rows = {kernel.pk: [held for held in kernel.allocations.all() if held.devices] for kernel in kernels}
    wanted = {pk for held in rows.values() for each in held for pk in each.devices}
    devices = AgentDevice.objects.in_bulk(wanted) if wanted else {}
    return {
        kernel_id: [
            DevicePart(devices[pk], each.amount // len(each.devices))
            for each in held
            for pk in each.devices
            if pk in devices
        ]
        for kernel_id, held in rows.items()
        if held
    }


def form_groups(kernel: Kernel, parts: Sequence[DevicePart]) -> bool:
    """Have the kernel's devices form the group that their vendor wants; return True if devices must be
    loaded again. Raises DeviceUnavailable, RuntimeFault.
    """
    return ensure_group(kernel.placed_agent, kernel.container_name, [part.row for part in parts])


def kernel_grant(session: ComputeSession, kernel: Kernel, parts: Sequence[DevicePart]) -> DeviceGrant:
    """Return what the kernel's container gets for its devices. Raises DeviceUnavailable if its machine
    cannot give exactly what was allocated, rather than start it without.
    """
    agent = kernel.placed_agent
    allocated = sum(held.amount for held in kernel.allocations.all() if held.slot_name not in (CPU, MEM))
    if not allocated:
        return NO_DEVICES
    if not agent.is_simulated and sum(part.share for part in parts) != allocated:
        raise DeviceUnavailable(f"Berth does not know which devices of {agent.name} were allocated.")
    return grant_devices(agent, parts, extras=allowed_extras(session.resource_group))


def withhold_after_failure(kernel: Kernel, parts: Sequence[DevicePart], error: DeviceUnavailable) -> None:
    """Withhold the devices that the kernel's machine could not give."""
    if parts:
        withhold_failed_devices(kernel.placed_agent, parts, error)
