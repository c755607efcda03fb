"""Mock accelerator vendor with a configurable number and use of devices, for machines without
accelerators.
"""

from agents.accelerators.base import AcceleratorDevice, AcceleratorMeasurement, DeviceUse


class MockDiscovery(AcceleratorMeasurement):
    vendor = "mock"

    def __init__(self, count: int, mem_bytes: int = 16 * 2**30, linked: int = 4) -> None:
        """`linked` is the number of devices in each link group."""
        self._count = count
        self._linked = linked
        self._mem_bytes = mem_bytes
        self._uses = {
            device.device_id: DeviceUse(
                device_id=device.device_id, percent=0, mem_bytes=0, mem_total_bytes=mem_bytes
            )
            for device in self.discover()
        }

    def discover(self) -> tuple[AcceleratorDevice, ...]:
        return tuple(
            AcceleratorDevice(
                vendor=self.vendor,
                slot_name="mock",
                device_id=f"mock-{index}",
                index=index,
                model="Mock accelerator",
                mem_bytes=self._mem_bytes,
                numa_node=index % 2,
                link_group=index // self._linked,
            )
            for index in range(self._count)
        )

    def measure(self) -> tuple[DeviceUse, ...]:
        return tuple(self._uses.values())

    def use(self, use: DeviceUse) -> None:
        """Set the use that a device reports from now on."""
        self._uses[use.device_id] = use

    def fall_silent(self, device_id: str) -> None:
        """Make a device report no use from now on."""
        self._uses.pop(device_id, None)
