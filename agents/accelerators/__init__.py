"""Accelerators of this machine and their use, over all vendors."""

from collections.abc import Sequence

from agents.accelerators.base import AcceleratorMeasurement, DeviceUse
from agents.accelerators.nvidia import NvidiaMeasurement

VENDORS: tuple[AcceleratorMeasurement, ...] = (NvidiaMeasurement(),)


def measure_devices(vendors: Sequence[AcceleratorMeasurement] = VENDORS) -> tuple[DeviceUse, ...]:
    """Return the present use of the devices, ordered by vendor and index; devices that report
    nothing are absent.
    """
    return tuple(use for vendor in vendors for use in vendor.measure())
