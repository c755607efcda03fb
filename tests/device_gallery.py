"""Groups of simulated machines whose accelerators are in every state, for pictures of the pages.

Run in the environment of a portal: `bin/manage shell -c "from tests.device_gallery import fill; fill()"`.
"""

from typing import NamedTuple

from agents.machines.simulation import MachineShape, add_simulated_agents
from agents.machines.withholding import warn_of_device, withhold_devices
from agents.models import Agent, AgentDevice, Withheld
from agents.resource_groups.service import create_resource_group
from agents.sharing.service import create_sharing_rule
from common import clock
from common.actors import SYSTEM

GIB = 2**30
TROUBLES = (
    (Withheld.QUARANTINE, "Xid 79: the device has fallen off the bus."),
    (Withheld.ADMINISTRATOR, "Fan is replaced on Monday."),
    (Withheld.BUSY, "Used by a program outside Berth: Xorg."),
)
WARNING = "Slowed down by heat or power."
ONE_IN = 23  # devices with a trouble, with a warning, missing: at other places each


class Kind(NamedTuple):
    """Machines of one resource group."""

    group: str
    machines: int
    devices: int
    slot: str
    vendor: str
    model: str
    mem_gib: int
    mode: str = ""  # of the sharing rule; "": none


KINDS = (
    Kind("train", 40, 8, "cuda", "nvidia", "NVIDIA H100 80GB HBM3", 80, "mps"),
    Kind("research", 14, 8, "rocm", "amd", "AMD Instinct MI300X", 192, "slice"),
    Kind("inference", 30, 4, "cuda", "nvidia", "NVIDIA L40S", 48, "memory"),
    Kind("npu", 6, 4, "atom", "rebellions", "RBLN-CA25", 64),
)


def fill() -> None:
    """Add the groups with their machines."""
    for kind in KINDS:
        group = create_resource_group(actor=SYSTEM, name=kind.group)
        if kind.mode:
            columns = {"model": kind.model, "mode": kind.mode, "smallest_share": 250}
            create_sharing_rule(actor=SYSTEM, group_id=group.pk, **columns)
        shape = MachineShape(gpus=kind.devices, gpu_model=kind.model, gpu_slot=kind.slot)
        agents = add_simulated_agents(actor=SYSTEM, group=group, count=kind.machines, shape=shape)
        mem_bytes = kind.mem_gib * GIB
        Agent.objects.filter(resource_group=group).update(
            device_mem_bytes=mem_bytes, device_api_version=12080
        )
        devices = AgentDevice.objects.filter(agent__in=agents)
        devices.update(vendor=kind.vendor, mem_bytes=mem_bytes, driver="570.86.15", api_version=12080)
        for number, device in enumerate(devices.order_by("pk"), 1):
            _trouble(device, number)


def _trouble(device: AgentDevice, number: int) -> None:
    if number % ONE_IN == 7:
        kind, because = TROUBLES[number // ONE_IN % len(TROUBLES)]
        withhold_devices(device.agent_id, [device.pk], kind=kind, because=because)
    elif number % ONE_IN == 16:
        warn_of_device(device, WARNING)
    elif number % (4 * ONE_IN) == 42:
        AgentDevice.objects.filter(pk=device.pk).update(is_present=False, missing_since=clock.now())
