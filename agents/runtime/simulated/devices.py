"""What the accelerators of a machine that runs nothing do: half of the time something, with a quarter of their memory, or
what a test says."""

from collections.abc import Mapping
from threading import Lock

from agents.discovery.base import DeviceUse
from common.values.resources import MILLI

MEM_BYTES = 80 * 2**30
STEADY_PERCENT = 50


def device_id_of(slot_name: str, index: int) -> str:
    """As agents.machines.accelerators.simulate_devices names them."""
    return f"{slot_name}-{index}"


class SimulatedDevices:
    """Of one machine. Any thread may ask."""

    def __init__(self, devices: Mapping[str, int]) -> None:
        self._lock = Lock()
        self._uses = {
            device_id: _steady(device_id)
            for slot_name, amount in devices.items()
            for index in range(amount // MILLI)
            for device_id in [device_id_of(slot_name, index)]
        }

    def use(self, use: DeviceUse) -> None:
        """From now on a device does this."""
        with self._lock:
            self._uses[use.device_id] = use

    def fall_silent(self, device_id: str) -> None:
        """From now on a device does not tell what it does."""
        with self._lock:
            self._uses.pop(device_id, None)

    def measure(self) -> tuple[DeviceUse, ...]:
        """As AcceleratorDiscovery.measure."""
        with self._lock:
            return tuple(self._uses.values())


def _steady(device_id: str) -> DeviceUse:
    return DeviceUse(
        device_id=device_id, percent=STEADY_PERCENT, mem_bytes=MEM_BYTES // 4, mem_total_bytes=MEM_BYTES
    )
