"""Accelerators of this machine and their use, over all vendors."""

from collections.abc import Sequence

from agents.accelerators.base import AcceleratorDevice, AcceleratorDiscovery, DeviceUse
from agents.accelerators.nvidia import NvidiaDiscovery

VENDORS: tuple[AcceleratorDiscovery, ...] = (NvidiaDiscovery(),)


def discover_devices(
    vendors: Sequence[AcceleratorDiscovery] = VENDORS,
) -> tuple[AcceleratorDevice, ...] | None:
    """Return the devices of the machine that this process runs on, ordered by vendor and index;
    None if a vendor's tools fail, because unreported devices may still exist.
    """
    found: list[AcceleratorDevice] = []
    for vendor in vendors:
        devices = vendor.discover()
        if devices is None:
            return None
        found += devices
    return tuple(found)


def measure_devices(vendors: Sequence[AcceleratorDiscovery] = VENDORS) -> tuple[DeviceUse, ...]:
    """Return the present use of the devices, ordered by vendor and index; devices that report
    nothing are absent.
    """
    return tuple(use for vendor in vendors for use in vendor.measure())
