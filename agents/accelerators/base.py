"""Accelerators and their use: values. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorDevice:
    """One GPU or NPU.

    `device_id` is the vendor's identifier that survives a restart (a UUID for NVIDIA); `slot_name`
    is the slot that sessions request. Devices of a machine with the same `link_group` are connected
    directly, by NVLink or similar, not only by the bus. `numa_node` and `link_group` are None if
    unknown. `parent_id`: the device that a partition (a MIG instance) is a part of, and `profile` its
    size ("1g.10gb"). `facts`: what the vendor's description read and its grants need, such as the
    numbers of device nodes. `driver` is the version of the driver; `api_version` the newest version
    of the programming interface (CUDA, ROCm) that it can run, as 12040 for 12.4; 0: unknown.
    """

    vendor: str
    slot_name: str
    device_id: str
    index: int
    model: str
    mem_bytes: int
    numa_node: int | None = None
    link_group: int | None = None
    pci_address: str = ""
    parent_id: str = ""
    profile: str = ""
    facts: Mapping[str, str | int] = field(default_factory=dict)
    driver: str = ""
    api_version: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """Process on a device: its id on the machine, the memory that it uses there, and the share of the
    last moments in which it computed. None: the driver does not tell.
    """

    pid: int
    mem_bytes: int | None = None
    percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """One measurement of a device.

    `percent` is the share of the last moments in which it computed; `mem_bytes` is the used part of
    `mem_total_bytes`, by any process. `activity` is the percentage by which somebody alone on the
    device may be called idle, by the vendor's idle rule. None: the vendor does not report it.
    """

    device_id: str
    percent: int | None = None
    mem_bytes: int | None = None
    mem_total_bytes: int | None = None
    watts: float | None = None
    celsius: int | None = None
    activity: int | None = None
    processes: tuple[DeviceProcess, ...] | None = None
