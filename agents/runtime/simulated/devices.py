"""Simulated use of accelerators: constantly 50 % busy with a quarter of their memory, or as set by
a test.
"""

from collections.abc import Mapping
from threading import Lock

from agents.discovery.base import DeviceUse
from common.values.resources import MILLI

MEM_BYTES = 80 * 2**30
STEADY_PERCENT = 50


def device_id_of(slot_name: str, index: int) -> str:
    """Return the device id that agents.machines.accelerators.simulate_devices assigns."""
    return f"{slot_name}-{index}"


class SimulatedDevices:
    """Accelerators of one simulated machine. Thread-safe."""

    def __init__(self, devices: Mapping[str, int]) -> None:
        self._lock = Lock()
        self._uses = {
            device_id: _steady(device_id)
            for slot_name, amount in devices.items()
            for index in range(amount // MILLI)
            for device_id in [device_id_of(slot_name, index)]
        }

    def use(self, use: DeviceUse) -> None:
        """Set the use that a device reports from now on."""
        with self._lock:
            self._uses[use.device_id] = use

    def fall_silent(self, device_id: str) -> None:
        """Make a device report no use from now on."""
        with self._lock:
            self._uses.pop(device_id, None)

    def measure(self) -> tuple[DeviceUse, ...]:
        """Implement AcceleratorDiscovery.measure."""
        with self._lock:
            return tuple(self._uses.values())


def _steady(device_id: str) -> DeviceUse:
    return DeviceUse(
        device_id=device_id, percent=STEADY_PERCENT, mem_bytes=MEM_BYTES // 4, mem_total_bytes=MEM_BYTES
    )
