"""Mock accelerator vendor with a configurable number of devices, for machines without accelerators."""

from agents.accelerators.base import AcceleratorDevice


class MockDiscovery:
    vendor = "mock"

    def __init__(self, count: int, mem_bytes: int = 16 * 2**30, linked: int = 4) -> None:
        """`linked` is the number of devices in each link group."""
        self._count = count
        self._linked = linked
        self._mem_bytes = mem_bytes

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
