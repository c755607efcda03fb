"""Port to a container engine, for synchronous callers (Celery workers), independent of the engine's
own protocol.

Pure: values, faults and the thread-safe `ContainerRuntime`; `port_async` is its counterpart for the
event loop. Every call has a deadline; every failure is a `RuntimeFault`. Methods named `ensure_*`,
`stop_*` and `remove_*` are idempotent: they succeed if the requested state exists already.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from agents.accelerators.grant import NO_DEVICES, DeviceGrant
from agents.runtime.docker.log_entries import LogTail


class RuntimeFault(Exception):
    """Base class of all failures of an engine call.
    `code` is a stable reason; `is_transient` is True if a retry may succeed.
    """

    code = "runtime_fault"
    is_transient = False


class RuntimeUnavailable(RuntimeFault):
    """No answer from the engine within the deadline, or no connection to it."""

    code = "runtime_unavailable"
    is_transient = True


class ImageMissing(RuntimeFault):
    """The image is not on the machine."""

    code = "image_missing"


class ImagePullFailed(RuntimeFault):
    """The registry does not have the image, refused access, or closed the connection."""

    code = "image_pull_failed"


class NetworkMissing(RuntimeFault):
    """The network that a container should join is not on the machine."""

    code = "network_missing"


class ContainerConflict(RuntimeFault):
    """The name is used by an object that does not carry Berth's labels."""

    code = "container_conflict"


class ContainerGone(RuntimeFault):
    """The container is absent or not running, and the call needs it running."""

    code = "container_gone"


class OutOfCapacity(RuntimeFault):
    """The machine has no free subnet, disk space or memory for the request."""

    code = "out_of_capacity"


class DeviceUnavailable(RuntimeFault):
    """The machine cannot give the container its accelerators: a device node, a CDI name or a driver of
    the engine is missing, or locked memory is limited.
    """

    code = "device_unavailable"


class RuntimeRefused(RuntimeFault):
    """The engine rejected the request; repeating it fails again."""

    code = "runtime_refused"


class ProcessTimeout(RuntimeFault):
    """A process in a container did not end within its timeout; it may still run."""

    code = "process_timeout"


class ContainerStatus(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Paths of PEM files for mutual TLS with an engine."""

    ca_file: str
    cert_file: str
    key_file: str


@dataclass(frozen=True, slots=True)
class SshMaterial:
    """Private key of Berth, the only host key that is accepted, and the engine's socket there."""

    host_key: str
    key: str = field(repr=False)
    socket: str = "/var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class PlainText:
    """Permission of an administrator to use an engine on the network without certificates."""


Credentials = TlsMaterial | SshMaterial | PlainText


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MountSpec:
    """One mount of a container.

    `source` is a volume name or an absolute host path; empty means an anonymous volume, which is
    removed with its container. `owner` (uid, gid) is applied to the top directory of a volume
    before the container first starts, so that an unprivileged user can write there. A tmpfs uses at
    most `size_bytes` of the container's memory, is writable by everyone and allows execution. With
    `options` of the engine's `local` driver, a volume is a file system that exists already, like a share;
    nothing of the image is copied there.
    """

    kind: Literal["volume", "bind", "tmpfs"]
    target: str
    source: str = ""
    is_readonly: bool = False
    size_bytes: int = 0
    owner: tuple[int, int] | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A bridge network in a free subnet of prefix length `prefix` in `pool`, or in the given `subnet`
    with the machine's own address `gateway`. `mtu` 0: the engine's default.
    """

    name: str
    labels: Mapping[str, str]
    pool: str = "10.213.0.0/16"
    prefix: int = 28
    subnet: str = ""
    gateway: str = ""
    mtu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """Everything that defines a container.

    `command` replaces the image's entry point and command. `cpuset` are the allowed cores, like
    "0-2,5"; all cores are allowed if it is empty or does not exist on the machine. `log_bytes`
    limits the size of the log on disk. `stop_signal` is sent to the process group of the command;
    if it is empty, SIGTERM is sent to the command's process only. `grant`: its accelerators; no other
    field, nor the image, gives it any. `runtime` replaces the engine's default runtime. Fixed for every
    container: no capabilities but those listed, only the system calls of `profiles.seccomp`, no new
    privileges, no swap, no published ports.
    """

    name: str
    image: str
    labels: Mapping[str, str]
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = ""
    hostname: str = ""
    network: str = ""
    aliases: tuple[str, ...] = ()
    address: str = ""  # in its network; empty: any
    hosts: tuple[
        tuple[str, str], ...
    ] = ()  # names and addresses besides those in its network on this machine
    cpu_milli: int
    cpuset: str = ""
    mem_bytes: int
    shm_bytes: int = 64 * 2**20
    pids_limit: int = 4096
    is_readonly: bool = False
    mounts: tuple[MountSpec, ...] = ()
    capabilities: tuple[str, ...] = ()
    nofile: int = 16384
    log_bytes: int = 16 * 2**20
    has_init: bool = True
    stop_signal: str = ""
    grant: DeviceGrant = NO_DEVICES
    runtime: str = ""

    def __post_init__(self) -> None:
        if self.runtime and self.grant.runtime:
            raise ValueError(f"A container has one runtime, not {self.runtime} and {self.grant.runtime}.")


HELPER_FILES_AT = "/opt/berth"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperSpec:
    """A program of Berth that runs on the machine as root. Only for images that Berth built, and without
    any right on the machine for one that an administrator named (`agents.sharing`).

    It has no capabilities but those listed, no files of the machine but those of `mounts`, and no
    devices but those of `grant`, whose `syscalls` are ignored: the engine's own profile holds.
    `has_network`: it is in the machine's network namespace, else in none. `sees_processes`: it is
    in the machine's namespaces of processes and control groups. `is_privileged`: it may do
    everything, for changes of hardware only. `is_restarted`: the engine starts it again whenever it
    ends and after a boot; only for `ensure_helper`. `files` are {name: content} in HELPER_FILES_AT,
    so that no image is built for a program. `user` is its uid and gid. `log_bytes` limits its output.
    """

    name: str
    image: str
    labels: Mapping[str, str]
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    mounts: tuple[MountSpec, ...] = ()
    grant: DeviceGrant = NO_DEVICES
    has_network: bool = False
    sees_processes: bool = False
    is_privileged: bool = False
    is_restarted: bool = False
    user: str = "0:0"
    mem_bytes: int = 64 * 2**20
    pids_limit: int = 64
    log_bytes: int = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """A container as the engine reports it.
    `exit_code` is None until the container has ended; `addresses` is {network: ip}.
    """

    name: str
    container_id: str
    labels: Mapping[str, str]
    status: ContainerStatus
    exit_code: int | None = None
    was_oom_killed: bool = False
    error: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryKill:
    """An out-of-memory kill of a process in the container; `at` is by the engine's clock."""

    container: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Facts about an engine and its machine.

    `boot_id` changes when the machine boots, after which kernel settings (such as firewall rules) and
    all processes from before `booted_at` (by the engine's clock) are lost.
    `devices` are slots other than CPU and memory, in base units. `runtimes` are the names of its
    container runtimes, `cdi_devices` those of the devices in specifications of the Container Device
    Interface ("nvidia.com/gpu=0"; engines from 28.3 on tell them). `cgroup_version` is 1 or 2.
    `address_pools` are the base networks of its own networks with the prefix length of each; empty: the
    engine's defaults.
    """

    engine_id: str
    version: str
    api_version: str
    architecture: str
    os: str
    cpu_milli: int
    mem_bytes: int
    kernel: str = ""
    has_live_restore: bool = False
    storage_driver: str = ""
    root_dir: str = ""
    boot_id: str = ""
    booted_at: datetime | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    cdi_devices: tuple[str, ...] = ()
    cgroup_version: int = 2
    address_pools: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image on the machine.
    `references` are its names: tags (`berth/python:1`) and digests (`name@sha256:…`). `environment`
    are its variables; empty in a list of images.
    """

    image_id: str
    references: tuple[str, ...]
    size_bytes: int
    labels: Mapping[str, str]
    architecture: str
    created_at: datetime | None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelledObject:
    """A network or a volume, with its labels."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PullProgress:
    done_bytes: int
    total_bytes: int
    layers_done: int
    layers_total: int


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Result of a process that ended.
    `output` is stdout and stderr combined, cut at the caller's limit.
    """

    exit_code: int
    output: bytes


OnProgress = Callable[[PullProgress], None]


class ContainerRuntime(ABC):
    """One engine, for synchronous callers.
    Thread-safe. Every method may raise `RuntimeUnavailable` and `RuntimeRefused`.
    """

    @abstractmethod
    def info(self) -> EngineInfo:
        """Return facts about the machine.
        Serves as the heartbeat: an answer shows that the engine is alive.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections. The object is not used afterwards."""

    # Images

    @abstractmethod
    def list_images(self) -> list[ImageInfo]:
        """Return images that have at least one name, ordered by first name.
        `architecture` may be empty here.
        """

    @abstractmethod
    def inspect_image(self, reference: str) -> ImageInfo | None:
        """Return the image with this name or id, or None if the machine does not have it."""

    @abstractmethod
    def pull_image(
        self,
        reference: str,
        *,
        on_progress: OnProgress,
        credentials: RegistryCredentials | None = None,
    ) -> ImageInfo:
        """Pull the image and return it; reported progress never decreases. Raises ImagePullFailed,
        OutOfCapacity, and whatever `on_progress` raises.
        """

    @abstractmethod
    def export_image(self, reference: str) -> Iterator[bytes]:
        """Return the image with this name, and no other, as an archive, in pieces. Raises ImageMissing.
        The pieces raise RuntimeRefused if the engine sends other names.
        """

    @abstractmethod
    def import_image(self, archive: Iterable[bytes]) -> None:
        """Load an image, with its names, from the archive that another engine of the same kind
        exported. Raises OutOfCapacity, and whatever the archive raises.
        """

    @abstractmethod
    def remove_image(self, reference: str) -> None:
        """Remove this name, and the image if it has no other. Succeeds if it is absent. Raises
        RuntimeRefused if a container, also an ended one, needs it.
        """

    # Networks and volumes

    @abstractmethod
    def ensure_network(self, spec: NetworkSpec) -> None:
        """Create the network, alone in its subnet, unless it exists.
        Raises OutOfCapacity (no free subnet in the pool), ContainerConflict.
        """

    @abstractmethod
    def remove_network(self, name: str) -> None:
        """Remove the network if it exists. Raises RuntimeRefused while containers are attached."""

    @abstractmethod
    def list_networks(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        """Return networks that carry all these labels, ordered by name."""

    @abstractmethod
    def ensure_volume(
        self,
        name: str,
        labels: Mapping[str, str],
        *,
        tmpfs_bytes: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Create the volume unless it exists; the content of an existing one is kept. With
        `tmpfs_bytes` it is memory of at most this size, empty once no running container has it. With
        `options` of the engine's `local` driver it is a file system that exists already. The engine
        mounts that when the first container with it starts, and keeps this mount for all others that
        start until the last of them has ended.
        """

    @abstractmethod
    def remove_volume(self, name: str) -> None:
        """Remove the volume and its content, if it exists.
        Raises RuntimeRefused while it is in use.
        """

    @abstractmethod
    def list_volumes(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        """Return volumes that carry all these labels, ordered by name."""

    # Containers

    @abstractmethod
    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        """Create the container without starting it, set the owners of its volumes, and return its
        state.

        An existing container with the same name and labels is returned unchanged. Raises
        ImageMissing, ContainerConflict, OutOfCapacity, DeviceUnavailable.
        """

    @abstractmethod
    def start_container(self, name: str) -> None:
        """Start the container unless it runs or has run.
        Raises ContainerGone, NetworkMissing, OutOfCapacity, DeviceUnavailable.
        """

    @abstractmethod
    def stop_container(self, name: str, grace_s: int) -> None:
        """Stop the container with its `stop_signal` and kill it after `grace_s`.
        Succeeds if it is absent.
        """

    @abstractmethod
    def remove_container(self, name: str) -> None:
        """Remove the container, killing it if it runs; its named volumes stay.
        Succeeds if it is absent.
        """

    @abstractmethod
    def inspect_container(self, name: str) -> ContainerState | None:
        """Return the present state, or None if there is no such container."""

    @abstractmethod
    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerState]:
        """Return containers in any state that carry all these labels, ordered by name. Exit codes,
        errors and timestamps may be absent here; `inspect_container` has them.
        """

    @abstractmethod
    def list_memory_kills(self, labels: Mapping[str, str]) -> list[MemoryKill]:
        """Return out-of-memory kills in containers that carry all these labels, oldest first.
        Reaches as far back as the engine remembers: some hundred events of all kinds. Kills of the
        present second may be missing.
        """

    @abstractmethod
    def process_ids(self, name: str) -> set[int]:
        """Return the ids that the container's processes have on the machine. Raises ContainerGone
        unless it runs.
        """

    @abstractmethod
    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        """Run the helper to its end and remove it, whatever the outcome. Raises ImageMissing, and
        ProcessTimeout if it still runs after `timeout_s`.
        """

    @abstractmethod
    def ensure_helper(self, spec: HelperSpec) -> ContainerState:
        """Start the helper, which runs on, and return its state. One of this name that runs by an
        equal spec is left alone; any other is replaced. `remove_container` ends it,
        `AsyncRuntime.read_last_line` reads what it said last. Raises ImageMissing, ContainerConflict.
        """

    # Inside a container

    @abstractmethod
    def start_process(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str = "",
    ) -> None:
        """Start a detached process in the container, without waiting for its end.
        Raises ContainerGone.
        """

    @abstractmethod
    def run_process(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str = "",
        timeout_s: float = 30,
        output_limit: int = 2**20,
    ) -> ProcessResult:
        """Run a process in the container to its end. A missing program gives exit code 126 or 127.
        Raises ContainerGone, and ProcessTimeout if it has no output for `timeout_s` or runs longer
        than that.
        """

    @abstractmethod
    def read_log_tail(self, name: str, *, limit_bytes: int) -> LogTail:
        """Return the last entries of stdout and stderr, in the engine's order, of at most
        `limit_bytes` in total. Raises ContainerGone if the container is absent.
        """

    def read_logs(self, name: str, *, limit_bytes: int = 2**20) -> bytes:
        """Return the text of `read_log_tail`."""
        return self.read_log_tail(name, limit_bytes=limit_bytes).text

    @abstractmethod
    def put_archive(self, name: str, path: str, tar_bytes: bytes) -> None:
        """Unpack a tar at `path`, also into mounted volumes; the container need not run.
        Raises ContainerGone.
        """
