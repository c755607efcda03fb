"""Which accelerators this machine has, and what they do, over all vendors."""

from collections.abc import Sequence

from agents.discovery.base import AcceleratorDevice, AcceleratorDiscovery, DeviceUse
from agents.discovery.nvidia import NvidiaDiscovery

VENDORS: tuple[AcceleratorDiscovery, ...] = (NvidiaDiscovery(),)


def discover_devices(
    vendors: Sequence[AcceleratorDiscovery] = VENDORS,
) -> tuple[AcceleratorDevice, ...] | None:
    """Devices of the machine that this process runs on, by vendor, then by index; None where the tools of a vendor fail: what they
    do not tell now may be there all the same."""
    found: list[AcceleratorDevice] = []
    for vendor in vendors:
        told = vendor.discover()
        if told is None:
            return None
        found += told
    return tuple(found)


def measure_devices(vendors: Sequence[AcceleratorDiscovery] = VENDORS) -> tuple[DeviceUse, ...]:
    """What they do now, in the same order; those that do not tell are absent."""
    return tuple(use for vendor in vendors for use in vendor.measure())
