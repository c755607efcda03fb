"""The port to accelerators: what a vendor's tools say about a machine. Pure."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorDevice:
    """One GPU or NPU. `device_id` is the vendor's own name that outlives a restart (a UUID for NVIDIA);
    `slot_name` is what sessions ask for. Devices of a machine with the same `link_group` reach each other without its bus, by
    NVLink or the like. `numa_node` and `link_group` are None where nobody knows."""

    vendor: str
    slot_name: str
    device_id: str
    index: int
    model: str
    mem_bytes: int
    numa_node: int | None = None
    link_group: int | None = None
    pci_address: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """One look at a device. `percent`: the part of the last moments in which it computed anything; `mem_bytes`: what is taken
    of its `mem_total_bytes`, by whoever. None: its vendor does not tell."""

    device_id: str
    percent: int | None = None
    mem_bytes: int | None = None
    mem_total_bytes: int | None = None
    watts: float | None = None
    celsius: int | None = None


class AcceleratorDiscovery(ABC):
    vendor: str

    @abstractmethod
    def discover(self) -> tuple[AcceleratorDevice, ...] | None:
        """All devices of this vendor that answer, by index; () where there are none, or none of its tools; None where these fail:
        nobody knows then. Never raises."""

    @abstractmethod
    def measure(self) -> tuple[DeviceUse, ...]:
        """What the devices of this vendor do now, by index; those that do not tell are absent. Opens the vendor's tools once,
        however many devices there are. Never raises."""
