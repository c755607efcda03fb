"""Which accelerators this machine has, over all vendors."""

from collections.abc import Sequence

from agents.discovery.base import AcceleratorDevice, AcceleratorDiscovery
from agents.discovery.nvidia import NvidiaDiscovery

VENDORS: tuple[AcceleratorDiscovery, ...] = (NvidiaDiscovery(),)


def discover_devices(vendors: Sequence[AcceleratorDiscovery] = VENDORS) -> tuple[AcceleratorDevice, ...]:
    """Devices of the machine that this process runs on, by vendor, then by index."""
    return tuple(device for vendor in vendors for device in vendor.discover())
