"""Parts of devices of the containers that are being launched: what limits them, and what was read back."""

from collections.abc import Mapping, Sequence

import structlog

from agents.accelerators.grant import NO_DEVICES, DeviceGrant, join_grants
from agents.core.isolation import Isolation
from agents.machines.grants import DevicePart
from agents.machines.withholding import withhold_devices
from agents.models import AgentDevice, Withheld
from agents.runtime.port import ContainerStatus, RuntimeFault
from agents.selectors import runtime_of
from agents.sharing import mps
from agents.sharing.device_groups import remove_group
from agents.sharing.mechanisms import (
    NVIDIA,
    Finding,
    HelperMissing,
    Mps,
    Share,
    end_daemon,
    hook_volume,
    mechanism_of,
)
from agents.sharing.selectors import sharing_rules_for
from common.values.resources import CPU, MEM, MILLI
from sessions_app.models import ComputeSession, Kernel, KernelAllocation

BY_DAEMON = (Isolation.SERVER.value, Isolation.DRIVER_MPS.value)

log = structlog.get_logger(__name__)


class IsolationTooWeak(RuntimeFault):
    """The running container is protected less than its session demands."""

    code = "isolation_too_weak"


def shares_of(
    session: ComputeSession, kernel: Kernel, parts: Sequence[DevicePart], labels: Mapping[str, str]
) -> list[Share]:
    """Return the parts of devices, and the partitions, of the kernel. One query, none without any."""
    shared = [part for part in parts if part.share < MILLI or part.row.parent_id]
    if not shared:
        return []
    rules = sharing_rules_for(session.resource_group, {part.row.model for part in shared})
    return [
        Share(
            agent=kernel.placed_agent,
            device=part.row,
            milli=part.share,
            rule=rules[part.row.model],
            container=kernel.container_name,
            labels=labels,
        )
        for part in shared
    ]


def end_idle_daemons(kernel: Kernel, parts: Sequence[DevicePart], shares: Sequence[Share]) -> None:
    """Remove the MPS daemons of devices that the kernel alone holds, and not by MPS: they keep all programs
    but their clients off the device. Raises RuntimeFault.
    """
    agent = kernel.placed_agent
    by_mps = {share.device.pk for share in shares if isinstance(mechanism_of(share), Mps)}
    for device, share in parts:
        if device.vendor != NVIDIA or agent.is_simulated or device.pk in by_mps or device.occupied > share:
            continue
        runtime = runtime_of(agent)
        if runtime.inspect_container(mps.daemon_name(device)) is not None:
            end_daemon(agent, device, runtime)


def prepare_shares(shares: Sequence[Share]) -> DeviceGrant:
    """Return what the container gets for its parts of devices besides them. A device whose mechanism
    cannot work is withheld. Raises HelperMissing, RuntimeFault.
    """
    if not shares:
        return NO_DEVICES
    additions = []
    for share in shares:
        try:
            additions.append(mechanism_of(share).prepare(share, runtime_of(share.agent)))
        except HelperMissing as fault:
            withhold_devices(share.agent.pk, [share.device.pk], kind=Withheld.HELPER, because=str(fault))
            raise
    return join_grants(*additions)


def record_isolation(
    session: ComputeSession, kernel: Kernel, parts: Sequence[DevicePart], shares: Sequence[Share]
) -> None:
    """Read back what protects the running container on its devices, and record it for each allocation.
    Raises IsolationTooWeak if that is less than the session demands.
    """
    if not parts:
        return
    findings = {share.device.pk: _verify(share) for share in shares}
    whole = Finding(Isolation.WHOLE)
    for held in kernel.allocations.all():
        if held.slot_name in (CPU, MEM) or not held.devices:
            continue
        weakest = max(
            (findings.get(device_id, whole) for device_id in held.devices),
            key=lambda finding: list(Isolation).index(finding.isolation),
        )
        KernelAllocation.objects.filter(pk=held.pk).update(
            isolation=weakest.isolation.value, isolation_note=weakest.note
        )
        _check_demand(session, kernel, weakest)


def end_device_clients(session: ComputeSession) -> None:
    """Have the MPS daemons end the programs of the session, before its containers stop: the end of a
    program with work under way would break that of its neighbours. One query, none without devices.
    """
    if session.requested_slots.keys() <= {CPU, MEM}:
        return
    held = KernelAllocation.objects.filter(kernel__session=session, isolation__in=BY_DAEMON)
    for row in held.select_related("agent", "kernel"):
        for device in AgentDevice.objects.filter(pk__in=row.devices):
            runtime = runtime_of(row.agent)
            try:
                mps.end_clients(runtime, device, runtime.process_ids(row.kernel.container_name))
            except RuntimeFault as fault:
                log.warning("share.clients_not_ended", session_id=str(session.pk), error=str(fault))


def release_shares(kernel: Kernel) -> None:
    """Remove the group of devices of an ended container, and what limited its parts alone. Raises
    RuntimeFault.
    """
    if kernel.session.requested_slots.keys() <= {CPU, MEM}:
        return
    remove_group(kernel.placed_agent, kernel.container_name)
    if any(row.devices and row.amount % MILLI for row in kernel.allocations.all()):
        runtime_of(kernel.placed_agent).remove_volume(hook_volume(kernel.container_name))


def _verify(share: Share) -> Finding:
    finding = mechanism_of(share).verify(share, runtime_of(share.agent))
    if finding.note:
        log.warning(
            "share.less_isolated",
            container=share.container,
            isolation=finding.isolation.value,
            note=finding.note,
        )
    return finding


def _check_demand(session: ComputeSession, kernel: Kernel, finding: Finding) -> None:
    if not session.isolation or finding.isolation.is_at_least(Isolation(session.isolation)):
        return
    state = runtime_of(kernel.placed_agent).inspect_container(kernel.container_name)
    if state is not None and state.status is ContainerStatus.EXITED:
        return  # its program is over, so nothing runs unprotected
    raise IsolationTooWeak(
        finding.note or f"Its part of a device is isolated at the level “{finding.isolation}”."
    )
