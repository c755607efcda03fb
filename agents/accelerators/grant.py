"""Grant of a container: what gives it its accelerators and no others. Read by the encoding. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any


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
    """File or directory of the machine that a container sees read-only at `target` ("": the same path).
    `is_in_engine`: it is in the engine's own directory, as the files of volumes are.
    """

    source: str
    target: str = ""
    is_in_engine: bool = False


@dataclass(frozen=True, slots=True)
class SharedVolume:
    """Volume of the engine that a container sees at `target`; it exists already."""

    name: str
    target: str
    is_readonly: bool = False


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
    volumes: tuple[SharedVolume, ...] = ()
    capabilities: tuple[str, ...] = ()
    syscalls: tuple[str, ...] = ()
    locks_memory: bool = False
    shm_bytes: int = 0


NO_DEVICES = DeviceGrant()


def join_grants(*grants: DeviceGrant) -> DeviceGrant:
    """Return a grant of all that these give. The last variable of a name and the last runtime count."""

    def once(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(getattr(grant, name) for grant in grants)))

    environment = {name: value for grant in grants for name, value in grant.environment.items()}
    return DeviceGrant(
        nodes=once("nodes"),
        requests=once("requests"),
        runtime=next((grant.runtime for grant in reversed(grants) if grant.runtime), ""),
        environment=environment,
        groups=once("groups"),
        binds=once("binds"),
        volumes=once("volumes"),
        capabilities=once("capabilities"),
        syscalls=once("syscalls"),
        locks_memory=any(grant.locks_memory for grant in grants),
        shm_bytes=max((grant.shm_bytes for grant in grants), default=0),
    )
