"""Watches what limits parts of devices while sessions run: the daemons of MPS, and what had failed.

A daemon that ended takes the programs of all its clients with it. Their sessions are told, the device is
given to nobody else, and the daemon is made again with the same limits.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

import structlog
from django.db.models import Q
from django.utils.translation import gettext_noop

from agents.core.isolation import Isolation
from agents.core.states import AgentState
from agents.machines.helper_containers import helper_labels, one_off_labels
from agents.machines.withholding import release_devices, withhold_devices
from agents.models import Agent, AgentDevice, Withheld
from agents.runtime.port import ContainerRuntime, ContainerStatus, RuntimeFault
from agents.selectors import runtime_of
from agents.sharing import mps
from agents.sharing.device_groups import GROUPS, remove_unused_groups
from agents.sharing.helper_containers import ROLE
from agents.sharing.mechanisms import NVIDIA, Mps, Share, end_daemon, mechanism_of
from agents.sharing.selectors import sharing_rules_for
from common import clock
from common.messaging.events import publish
from sessions_app.events import DeviceLimitsLost
from sessions_app.launch.device_shares import BY_DAEMON
from sessions_app.models import Kernel, KernelAllocation

log = structlog.get_logger(__name__)

DAEMON_ENDED = gettext_noop("The MPS daemon of the device ended, and its programs failed.")
REMOVED_WITHIN = timedelta(minutes=10)
REMOVED = "Nobody uses its MPS daemon, which is being removed."
_REACHABLE = [AgentState.CONNECTED.value, AgentState.DRAINING.value]


def monitor_device_shares() -> None:
    """Tell the sessions of daemons that ended, and give out devices again whose mechanism works."""
    _report_ended_daemons()
    waiting = AgentDevice.objects.filter(
        withheld=Withheld.HELPER, is_present=True, agent__state__in=_REACHABLE, agent__last_error=""
    )
    removed_now = Q(withheld_because=REMOVED, withheld_since__gt=clock.now() - REMOVED_WITHIN)
    waiting = waiting.exclude(removed_now)  # who removes its daemon releases it
    for device in waiting.order_by("agent_id", "pk").select_related("agent__resource_group"):
        try:
            _repair(device)
        except RuntimeFault as fault:
            log.warning("share.not_repaired", device_id=device.pk, error=str(fault))


def remove_unused_daemons(agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove the MPS daemons of devices that no session holds. Raises RuntimeFault."""
    if agent.is_simulated or not agent.devices.filter(vendor=NVIDIA).exists():
        return
    for state in runtime.list_containers(helper_labels(mps.ROLE)):
        device = agent.devices.filter(pk=state.labels.get(mps.DEVICE_LABEL, 0)).first()
        if device is None:
            mps.remove_daemon(runtime, state.name)
        elif not device.occupied and withhold_devices(
            agent.pk, [device.pk], kind=Withheld.HELPER, because=REMOVED
        ):
            device.refresh_from_db()  # from now on nothing is placed on it
            if not device.occupied:
                end_daemon(agent, device, runtime)
            release_devices(agent.pk, [device.pk], kind=Withheld.HELPER)


def remove_left_groups(agent: Agent) -> None:
    """Remove the groups of devices of containers that hold none any more, as after a crash. Raises
    RuntimeFault. No query if the agent has no groups.
    """
    if agent.data.get(GROUPS):
        holders = Kernel.objects.filter(allocations__agent=agent).distinct()
        remove_unused_groups(agent, {kernel.container_name for kernel in holders})


def _report_ended_daemons() -> None:
    held = KernelAllocation.objects.filter(isolation__in=BY_DAEMON, agent__state__in=_REACHABLE)
    by_device = defaultdict(list)
    for row in held.select_related("agent", "kernel"):
        by_device[row.devices[0]].append(row)
    devices = AgentDevice.objects.select_related("agent").in_bulk(by_device)
    for device_id, device in sorted(devices.items()):
        try:
            if mps.is_running(runtime_of(device.agent), device):
                continue
        except RuntimeFault:
            continue  # the machine does not answer, which heartbeats notice
        withhold_devices(device.agent_id, [device_id], kind=Withheld.HELPER, because=DAEMON_ENDED)
        _write(by_device[device_id], Isolation.NONE, DAEMON_ENDED)
        publish(DeviceLimitsLost(tuple(row.kernel.session_id for row in by_device[device_id])))


def _repair(device: AgentDevice) -> None:
    """Make what limits parts of the device again; if that works, give the device out again, and read
    back what protects the sessions on it. Raises RuntimeFault.
    """
    agent = device.agent
    rule = sharing_rules_for(agent.resource_group, [device.model])[device.model]
    trial = Share(
        agent=agent,
        device=device,
        milli=rule.smallest_share,
        rule=rule,
        container=f"berth-trial-{device.pk}",
        labels=one_off_labels(ROLE),
    )
    mechanism, runtime = mechanism_of(trial), runtime_of(agent)
    if not isinstance(mechanism, Mps) and _had_daemon(device, runtime):
        end_daemon(agent, device, runtime)  # no rule wants it any more
    mechanism.prepare(trial, runtime)
    mechanism.release(trial, runtime)
    held = KernelAllocation.objects.filter(agent=agent, devices=[device.pk], isolation=Isolation.NONE)
    for row in held.select_related("kernel"):
        state = runtime.inspect_container(row.kernel.container_name)
        if state is not None and state.status is ContainerStatus.RUNNING:
            share = Share(
                agent=agent, device=device, milli=row.amount, rule=rule, container=row.kernel.container_name
            )
            finding = mechanism.verify(share, runtime)
            _write([row], finding.isolation, finding.note)
    release_devices(agent.pk, [device.pk], kind=Withheld.HELPER)


def _had_daemon(device: AgentDevice, runtime: ContainerRuntime) -> bool:
    if device.vendor != NVIDIA or device.agent.is_simulated:
        return False
    is_known = device.withheld_because == DAEMON_ENDED
    return is_known or runtime.inspect_container(mps.daemon_name(device)) is not None


def _write(rows: Iterable[KernelAllocation], isolation: Isolation, note: str) -> None:
    KernelAllocation.objects.filter(pk__in=[row.pk for row in rows]).update(
        isolation=isolation.value, isolation_note=note
    )
