"""Conversion between the port's values and Docker's wire formats: container configuration, states,
log frames, pull progress, subnets. Pure.
"""

import base64
import io
import ipaddress
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from agents.accelerators.description import no_accelerators
from agents.accelerators.grant import BoundPath, DeviceGrant, DriverRequest
from agents.runtime.port import (
    HELPER_FILES_AT,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    HelperSpec,
    ImageInfo,
    MemoryKill,
    MountSpec,
    NetworkSpec,
    PullProgress,
    RegistryCredentials,
)
from agents.runtime.port_async import Channel
from agents.runtime.profiles import seccomp

CPU_PERIOD_US = 100_000
LOG_FILES = 8
"""Number of log files per container. The engine drops a whole file when the last one is full, so
many small files keep the log close to its limit.
"""

OOM_SCORE_OF_SESSIONS = 300
"""OOM score adjustment of sessions: if the machine runs out of memory, sessions are killed before
its services. It leaves room above for the user's programs (`RAISE_OOM_SCORE`), which are killed
before their app server.
"""

RAISE_OOM_SCORE = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; "
"""Prefix of the shell line that starts a user's program, which makes it the first of the session to
be killed when memory runs out.
"""

SIGNAL_THE_GROUP = {"TINI_KILL_PROCESS_GROUP": "1"}
"""Environment that makes the engine's init, tini, pass signals on to the process group of the
command instead of its process alone.
"""

BRIDGE_NAME_LENGTH = 15
FRAME_HEADER_LENGTH = 8
SHM_BYTES = 64 * 2**20
HELPER_SPEC_LABEL = "io.berth.helper"
"""Label with a checksum of a helper's configuration, by which `ensure_helper` finds a changed spec."""

_MACHINE_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
_ENGINE_STATUS = {
    "created": ContainerStatus.CREATED,
    "running": ContainerStatus.RUNNING,
    "restarting": ContainerStatus.RUNNING,
    "paused": ContainerStatus.PAUSED,
    "exited": ContainerStatus.EXITED,
    "removing": ContainerStatus.DEAD,
    "dead": ContainerStatus.DEAD,
}
_EXITED = re.compile(r"^Exited \((\d+)\)")
_INSTANT = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(Z|[+-]\d\d:\d\d)$")

Json = dict[str, Any]


def machine_name(architecture: str) -> str:
    """Return the `uname -m` name of an architecture: "x86_64" for both amd64 and x86_64."""
    return _MACHINE_NAMES.get(architecture, architecture)


# Requests to the engine


def container_config(spec: ContainerSpec) -> Json:
    """Return the body of POST /containers/create.
    A container without a network gets none, never the engine's shared bridge. It gets the
    accelerators of its grant, whatever its image or its environment says.
    """
    environment = {
        **spec.environment,
        **no_accelerators(),
        **spec.grant.environment,
        **(SIGNAL_THE_GROUP if spec.stop_signal else {}),
    }
    config: Json = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "Labels": dict(spec.labels),
        "HostConfig": _host_config(spec),
    }
    optional = {
        # Replaces the image's entry point, which would otherwise receive the command as arguments.
        "Entrypoint": list(spec.command) if spec.command is not None else None,
        "User": spec.user,
        "WorkingDir": spec.working_dir,
        "Hostname": spec.hostname,
        "StopSignal": spec.stop_signal,
    }
    config.update({key: value for key, value in optional.items() if value})
    if spec.network:
        endpoint: Json = {"Aliases": list(spec.aliases)}
        if spec.address:
            endpoint["IPAMConfig"] = {"IPv4Address": spec.address}
        config["NetworkingConfig"] = {"EndpointsConfig": {spec.network: endpoint}}
    return config


def _host_config(spec: ContainerSpec) -> Json:
    grant = spec.grant
    return {
        "CapDrop": ["ALL"],
        "CapAdd": [*spec.capabilities, *grant.capabilities],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={seccomp.profile_text(grant.syscalls)}"],
        "ReadonlyRootfs": spec.is_readonly,
        "Memory": spec.mem_bytes,
        "MemorySwap": spec.mem_bytes,
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": spec.cpu_milli * CPU_PERIOD_US // 1000,
        "CpuShares": max(2, spec.cpu_milli * 1024 // 1000),
        "CpusetCpus": spec.cpuset,
        "PidsLimit": spec.pids_limit,
        "ShmSize": max(spec.shm_bytes, grant.shm_bytes),
        "OomScoreAdj": OOM_SCORE_OF_SESSIONS,
        "Ulimits": [
            {"Name": "nofile", "Soft": spec.nofile, "Hard": spec.nofile},
            {"Name": "core", "Soft": 0, "Hard": 0},
            *_memory_lock(grant),
        ],
        "LogConfig": {
            "Type": "json-file",
            "Config": {
                "max-size": str(spec.log_bytes // LOG_FILES),
                "max-file": str(LOG_FILES),
            },
        },
        "Init": spec.has_init,
        "IpcMode": "private",
        "NetworkMode": spec.network or "none",
        "RestartPolicy": {"Name": "no"},
        **({"ExtraHosts": [f"{name}:{address}" for name, address in spec.hosts]} if spec.hosts else {}),
        **_mounts(spec.mounts, grant),
        **_devices(grant),
        **({"Runtime": spec.runtime} if spec.runtime else {}),
    }


def _devices(grant: DeviceGrant) -> Json:
    """Return the parts of HostConfig that only containers with accelerators have. A container may read
    and write its device nodes, not make others.
    """
    parts: Json = {
        "Devices": [
            {
                "PathOnHost": node.path,
                "PathInContainer": node.target or node.path,
                "CgroupPermissions": "rw",
            }
            for node in grant.nodes
        ],
        "DeviceRequests": [_device_request(request) for request in grant.requests],
        "GroupAdd": [str(group) for group in grant.groups],
        "Runtime": grant.runtime,
    }
    return {name: value for name, value in parts.items() if value}


def _device_request(request: DriverRequest) -> Json:
    body: Json = {"Driver": request.driver, "DeviceIDs": list(request.ids)}
    return body | ({"Capabilities": [list(request.capabilities)]} if request.capabilities else {})


def helper_config(spec: HelperSpec) -> Json:
    """Return the body of POST /containers/create for a helper: root in the machine's user namespace,
    with everything else restricted. The image's user and entry point are ignored.
    """
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **no_accelerators(),
        **spec.environment,
        **spec.grant.environment,
    }
    files = [MountSpec("volume", HELPER_FILES_AT)] if spec.files else []
    host_config: Json = {
        "NetworkMode": "host" if spec.has_network else "none",
        "UsernsMode": "host",
        "PidMode": "host" if spec.sees_processes else "",
        "CgroupnsMode": "host" if spec.sees_processes else "private",
        "Privileged": spec.is_privileged,
        "CapDrop": ["ALL"],
        "CapAdd": [*spec.capabilities, *spec.grant.capabilities],
        "SecurityOpt": ["no-new-privileges:true"],
        "ReadonlyRootfs": True,
        "Memory": spec.mem_bytes,
        "PidsLimit": spec.pids_limit,
        "RestartPolicy": {"Name": "unless-stopped" if spec.is_restarted else "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": str(spec.log_bytes)}},
        "ShmSize": max(SHM_BYTES, spec.grant.shm_bytes),
        "Ulimits": _memory_lock(spec.grant),
        **_mounts((*spec.mounts, *files), spec.grant),
        **_devices(spec.grant),
    }
    return {
        "Image": spec.image,
        "Labels": dict(spec.labels),
        "Entrypoint": list(spec.command),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "User": spec.user,
        "WorkingDir": "/",
        "HostConfig": host_config,
    }


def lasting_helper_config(spec: HelperSpec) -> Json:
    """Return `helper_config` with a label that is equal for equal specs only."""
    config = helper_config(spec)
    checksum = sha256(json.dumps(config, sort_keys=True).encode())
    for name, content in sorted(spec.files.items()):
        checksum.update(f"{name} {len(content)} ".encode() + content)
    return config | {"Labels": config["Labels"] | {HELPER_SPEC_LABEL: checksum.hexdigest()}}


def files_archive(files: Mapping[str, bytes]) -> bytes:
    """Return a tar of readable files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o555
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _mounts(mounts: Sequence[MountSpec], grant: DeviceGrant) -> Json:
    volumes = [MountSpec("volume", each.target, each.name, each.is_readonly) for each in grant.volumes]
    as_it_is = {
        "VolumeOptions": {"NoCopy": True}
    }  # an empty one would get the owner and mode of the image's directory
    return {
        "Mounts": [
            *(_mount(mount) for mount in mounts if mount.kind != "tmpfs"),
            *(_mount(mount) | as_it_is for mount in volumes),
            *(_bound(path) for path in grant.binds),
        ],
        "Tmpfs": {mount.target: _tmpfs(mount) for mount in mounts if mount.kind == "tmpfs"},
    }


def _bound(path: BoundPath) -> Json:
    body = _mount(MountSpec("bind", path.target or path.source, path.source, True))
    # Engines refuse to bind what is in their own directory unless they can unmount it everywhere.
    return body | ({"BindOptions": {"Propagation": "rslave"}} if path.is_in_engine else {})


def _memory_lock(grant: DeviceGrant) -> list[Json]:
    return [{"Name": "memlock", "Soft": -1, "Hard": -1}] if grant.locks_memory else []


def _mount(mount: MountSpec) -> Json:
    body: Json = {
        "Type": mount.kind,
        "Target": mount.target,
        "ReadOnly": mount.is_readonly,
    }
    if mount.kind == "bind":
        body["BindOptions"] = {"Propagation": "rprivate"}
    if mount.options:
        driver = {"Name": "local", "Options": dict(mount.options)}
        body["VolumeOptions"] = {"NoCopy": True, "DriverConfig": driver}
    return body | {"Source": mount.source}


def _tmpfs(mount: MountSpec) -> str:
    """Return mount options as text: a tmpfs in `Mounts` cannot allow execution, which compilers and
    pip need.
    """
    access = "ro" if mount.is_readonly else "rw"
    return f"{access},nosuid,nodev,exec,mode=1777,size={mount.size_bytes}"


def tmpfs_options(size_bytes: int) -> dict[str, str]:
    """Return the driver options of a volume in memory."""
    return {"type": "tmpfs", "device": "tmpfs", "o": f"size={size_bytes},mode=1777"}


def network_config(spec: NetworkSpec, subnet: ipaddress.IPv4Network, spare: int = 0) -> Json:
    """Return the body of POST /networks/create: a bridge with a predictable interface name, which
    firewall rules can match. `spare` numbers alternative names, if the first is taken.
    """
    return {
        "Name": spec.name,
        "CheckDuplicate": True,
        "Driver": "bridge",
        "EnableIPv6": False,
        "Labels": dict(spec.labels),
        "IPAM": {
            "Driver": "default",
            "Config": [{"Subnet": str(subnet)} | ({"Gateway": spec.gateway} if spec.gateway else {})],
        },
        "Options": {
            "com.docker.network.bridge.name": bridge_name(f"{spec.name}~{spare}" if spare else spec.name),
            "com.docker.network.bridge.enable_icc": "true",
            **({"com.docker.network.driver.mtu": str(spec.mtu)} if spec.mtu else {}),
        },
    }


def bridge_name(network: str) -> str:
    """Return the interface name of a network, the same on every machine: `bth` and 12 hex digits
    (the kernel allows 15 characters).
    """
    return ("bth" + sha256(network.encode()).hexdigest())[:BRIDGE_NAME_LENGTH]


def free_subnets(
    pool: str, prefix: int, taken: Iterable[str], *, seed: str = ""
) -> Iterator[ipaddress.IPv4Network]:
    """Yield the subnets of the pool that overlap none of `taken`, circularly from a position
    derived from `seed`.

    IPv6 and invalid texts in `taken` are ignored. The seed avoids reusing the addresses of a
    session that has just ended, while other hosts may still send to them.
    """
    whole = ipaddress.IPv4Network(pool)
    first, step = int(whole.network_address), 1 << (32 - prefix)
    count = whole.num_addresses // step
    used: set[int] = set()
    for text in taken:
        try:
            other = ipaddress.IPv4Network(text, strict=False)
        except ValueError:
            continue
        if other.overlaps(whole):
            low = max(int(other.network_address), first)
            high = min(int(other.broadcast_address), int(whole.broadcast_address))
            used.update(range((low - first) // step, (high - first) // step + 1))
    begin = int.from_bytes(sha256(seed.encode()).digest()[:8])
    for place in range(count):
        index = (begin + place) % count
        if index not in used:
            yield ipaddress.IPv4Network((first + index * step, prefix))


def owner_archive(mount: MountSpec) -> bytes:
    """Return a tar that, unpacked at the mount's target, only sets the owner of its top directory.

    Engines skip an entry named `.`, and cannot write above the mount if the root is read-only, so
    the entry is `../<name>`.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(f"../{mount.target.rstrip('/').rpartition('/')[2]}")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        entry.uid, entry.gid = mount.owner or (0, 0)
        archive.addfile(entry)
    return buffer.getvalue()


def registry_headers(credentials: RegistryCredentials | None) -> dict[str, str]:
    if credentials is None:
        return {}
    body = {"username": credentials.username, "password": credentials.password}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(body).encode()).decode()}


# Answers of the engine


def cdi_devices(info: Json) -> tuple[str, ...]:
    """Return the names of CDI devices in GET /info."""
    found = info.get("DiscoveredDevices") or []
    return tuple(sorted(device["ID"] for device in found if device.get("Source") == "cdi"))


def parse_instant(text: str) -> datetime | None:
    """Parse RFC 3339 with up to nine decimals; the engine's zero time and an empty text give None."""
    match = _INSTANT.match(text)
    if match is None or text.startswith("0001-"):
        return None
    seconds, fraction, zone = match.groups()
    return datetime.fromisoformat(f"{seconds}.{(fraction or '0'):0<6}{zone.replace('Z', '+00:00')}")


def state_of_inspection(body: Json) -> ContainerState:
    """Parse GET /containers/{name}/json."""
    state = body["State"]
    status = _ENGINE_STATUS[state["Status"]]
    has_ended = status in (ContainerStatus.EXITED, ContainerStatus.DEAD)
    return ContainerState(
        name=body["Name"].lstrip("/"),
        container_id=body["Id"],
        labels=body["Config"].get("Labels") or {},
        status=status,
        exit_code=state["ExitCode"] if has_ended else None,
        was_oom_killed=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
        addresses=_addresses(body),
        started_at=parse_instant(state.get("StartedAt") or ""),
        finished_at=parse_instant(state.get("FinishedAt") or "") if has_ended else None,
    )


def state_of_listing(row: Json) -> ContainerState:
    """Parse one row of GET /containers/json."""
    exited = _EXITED.match(row.get("Status") or "")
    return ContainerState(
        name=row["Names"][0].lstrip("/") if row.get("Names") else row["Id"][:12],
        container_id=row["Id"],
        labels=row.get("Labels") or {},
        status=_ENGINE_STATUS[row["State"]],
        exit_code=int(exited.group(1)) if exited else None,
        addresses=_addresses(row),
    )


def memory_kill_of(event: Json) -> MemoryKill:
    """Parse an `oom` event of a container."""
    at = datetime.fromtimestamp(event["timeNano"] / 1e9, UTC)
    return MemoryKill(event["Actor"]["Attributes"]["name"], at)


def _addresses(body: Json) -> dict[str, str]:
    networks = (body.get("NetworkSettings") or {}).get("Networks") or {}
    return {name: end["IPAddress"] for name, end in networks.items() if end and end.get("IPAddress")}


def image_info(body: Json) -> ImageInfo:
    """Parse GET /images/{name}/json or one row of GET /images/json."""
    created, config = body.get("Created"), body.get("Config") or {}
    return ImageInfo(
        image_id=body["Id"],
        references=tuple(sorted(_image_names(body))),
        size_bytes=body.get("Size") or 0,
        labels=config.get("Labels") or body.get("Labels") or {},
        architecture=machine_name(body.get("Architecture") or ""),
        created_at=parse_instant(created) if isinstance(created, str) else None,
        environment=dict(entry.split("=", 1) for entry in config.get("Env") or () if "=" in entry),
    )


def _image_names(body: Json) -> set[str]:
    names = [*(body.get("RepoTags") or []), *(body.get("RepoDigests") or [])]
    return {name for name in names if "<none>" not in name}


def subnets_of(networks: Iterable[Json]) -> list[str]:
    """Return all subnets in GET /networks."""
    configs = [config for network in networks for config in ((network.get("IPAM") or {}).get("Config") or [])]
    return [config["Subnet"] for config in configs if config.get("Subnet")]


def carries(labels: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """True if `labels` has all wanted labels with these values."""
    return all((labels or {}).get(name) == value for name, value in wanted.items())


class ChannelSplitter:
    """Decoder of the engine's multiplexed output that keeps the channels apart: feed received data,
    get (channel, bytes) parts, also of incomplete frames.
    """

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._channel = Channel.OUTPUT

    def feed(self, data: bytes) -> list[tuple[Channel, bytes]]:
        parts = []
        while data:
            if self._left:
                part, data = data[: self._left], data[self._left :]
                self._left -= len(part)
                parts.append((self._channel, part))
                continue
            missing = FRAME_HEADER_LENGTH - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == FRAME_HEADER_LENGTH:
                self._channel = Channel.ERRORS if self._head[0] == Channel.ERRORS else Channel.OUTPUT
                self._left = int.from_bytes(self._head[4:], "big")
                self._head = b""
        return parts


class PullTracker:
    """Sum of the progress of all layers of a pull.
    Feed each decoded line of the engine's answer; `feed` returns the progress.
    """

    def __init__(self) -> None:
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._finished: set[str] = set()

    def feed(self, line: Json) -> PullProgress:
        layer, status = line.get("id") or "", line.get("status") or ""
        detail = line.get("progressDetail") or {}
        if status in ("Pulling fs layer", "Waiting", "Already exists"):
            self._total.setdefault(layer, 0)
        if status == "Downloading":
            self._total[layer] = max(self._total.get(layer, 0), detail.get("total") or 0)
            self._done[layer] = max(self._done.get(layer, 0), detail.get("current") or 0)
        if status in ("Download complete", "Pull complete") and layer in self._total:
            self._done[layer] = self._total[layer]
        if status in ("Pull complete", "Already exists"):
            self._finished.add(layer)
        return PullProgress(
            done_bytes=sum(self._done.values()),
            total_bytes=sum(self._total.values()),
            layers_done=len(self._finished),
            layers_total=len(self._total),
        )
