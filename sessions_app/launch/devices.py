"""Accelerators of the containers that are being launched."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from agents.accelerators.grant import NO_DEVICES, DeviceGrant
from agents.machines.grants import DevicePart, allowed_extras, grant_devices, withhold_failed_devices
from agents.models import AgentDevice
from agents.runtime.port import ContainerStatus, DeviceUnavailable
from agents.selectors import runtime_of
from agents.sharing.device_groups import ensure_group, keep_indices
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


@contextmanager
def kept_grant(
    session: ComputeSession, kernel: Kernel, parts: Sequence[DevicePart], grant: DeviceGrant
) -> Iterator[DeviceGrant]:
    """Yield the grant, which is right until the block ends, in which the kernel's container starts: where
    devices are given by an index that may have changed, it is made again, and so is a container that a
    launch which died has left. Raises DeviceUnavailable, RuntimeFault.
    """
    agent = kernel.placed_agent
    with keep_indices(agent, [part.row for part in parts]) as may_have_changed:
        if may_have_changed:  # whole devices only, so that the grant has nothing but them
            grant = kernel_grant(session, kernel, allocated_parts([kernel])[kernel.pk])
            runtime = runtime_of(agent)
            left = runtime.inspect_container(kernel.container_name)
            if left is not None and left.status is ContainerStatus.CREATED:
                runtime.remove_container(kernel.container_name)
        yield grant


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
