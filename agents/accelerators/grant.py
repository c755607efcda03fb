"""Grant of a container: what gives it its accelerators and no others. Read by the encoding. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """Device file of the machine, and its path in the container ("": the same)."""

    path: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """Request to a device driver of the engine: "cdi" with names of CDI devices, or "nvidia"."""

    driver: str
    ids: tuple[str, ...]
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundPath:
    """File or directory of the machine that a container sees read-only at `target` ("": the same path)."""

    source: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGrant:
    """All that a container gets for its accelerators.

    `runtime` replaces the engine's default runtime. `groups` are supplementary group ids that may
    open the nodes. `syscalls` are allowed beyond `profiles.seccomp`. `shm_bytes` is the least size
    of /dev/shm. `locks_memory`: no limit of locked memory.
    """

    nodes: tuple[DeviceNode, ...] = ()
    requests: tuple[DriverRequest, ...] = ()
    runtime: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[int, ...] = ()
    binds: tuple[BoundPath, ...] = ()
    capabilities: tuple[str, ...] = ()
    syscalls: tuple[str, ...] = ()
    locks_memory: bool = False
    shm_bytes: int = 0


NO_DEVICES = DeviceGrant()
