"""Which accelerators this machine has, and what they do, over all vendors."""

from collections.abc import Sequence

from agents.discovery.base import AcceleratorDevice, AcceleratorDiscovery, DeviceUse
from agents.discovery.nvidia import NvidiaDiscovery

VENDORS: tuple[AcceleratorDiscovery, ...] = (NvidiaDiscovery(),)


def discover_devices(vendors: Sequence[AcceleratorDiscovery] = VENDORS) -> tuple[AcceleratorDevice, ...]:
    """Devices of the machine that this process runs on, by vendor, then by index."""
    return tuple(device for vendor in vendors for device in vendor.discover())


def measure_devices(vendors: Sequence[AcceleratorDiscovery] = VENDORS) -> tuple[DeviceUse, ...]:
    """What they do now, in the same order; those that do not tell are absent."""
    return tuple(use for vendor in vendors for use in vendor.measure())
