"""The port to a container engine: what Berth asks of a machine, and nothing of how an engine says it.

Pure: values, faults and the port for workers (sync, thread-safe); `base_async` has that for the event loop. Every
call has a deadline inside; every failure is a `RuntimeFault`. Calls named `ensure_*`, `stop_*` and `remove_*` may be
repeated: what is already as asked is a success."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from agents.runtime.docker.log_entries import LogTail


class RuntimeFault(Exception):
    """An engine did not do what was asked. `code` is a stable reason, `is_transient` says that a retry may help."""

    code = "runtime_fault"
    is_transient = False


class RuntimeUnavailable(RuntimeFault):
    """The engine did not answer in time, or not at all."""

    code = "runtime_unavailable"
    is_transient = True


class ImageMissing(RuntimeFault):
    """The image is not on the machine."""

    code = "image_missing"


class ImagePullFailed(RuntimeFault):
    """The registry does not know the image, refused us or broke off."""

    code = "image_pull_failed"


class NetworkMissing(RuntimeFault):
    """The network that a container is to join is not on the machine."""

    code = "network_missing"


class ContainerConflict(RuntimeFault):
    """The name is taken by something whose labels are not ours."""

    code = "container_conflict"


class ContainerGone(RuntimeFault):
    """The container is absent or does not run, and the call needs it."""

    code = "container_gone"


class OutOfCapacity(RuntimeFault):
    """The machine has no free subnet, disk or memory for this."""

    code = "out_of_capacity"


class RuntimeRefused(RuntimeFault):
    """The engine understood and said no; a repeat will get the same answer."""

    code = "runtime_refused"


class ProcessTimeout(RuntimeFault):
    """A process in a container did not end in the time given; it may run on."""

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
class RegistryCredentials:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MountSpec:
    """One mount. `source` is a volume name (without one it is a volume that goes with its container) or an absolute
    host path; `owner` (uid, gid) is given to the top directory of a volume before the container first starts, so that an
    unprivileged user can write there. A tmpfs lies in the container's memory, at most `size_bytes` of it; everybody may
    write there and run programs."""

    kind: Literal["volume", "bind", "tmpfs"]
    target: str
    source: str = ""
    is_readonly: bool = False
    size_bytes: int = 0
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A bridge network of its own, in a subnet of `pool` (of length /`prefix`) that is free on the engine."""

    name: str
    labels: Mapping[str, str]
    pool: str = "10.213.0.0/16"
    prefix: int = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """All that an engine is told about a container. `command` takes the place of the image's entry point and command.
    `cpuset` are the cores that it may use, like "0-2,5": all where it is empty or the machine has others. `log_bytes` is
    the most that its log takes of the disk. `stop_signal` stops it, sent to the process group of its command; if empty,
    SIGTERM to the command's process alone. Never different: no capability but those listed, the system calls of
    `profiles.seccomp` alone, no new privileges, no swap, no published port."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperSpec:
    """A program of ours that works on the machine itself, as root in the machine's own network: only for images that
    Berth built. It sees no file of the machine and has no capability but those listed."""

    name: str
    image: str
    labels: Mapping[str, str]
    command: tuple[str, ...]
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """A container as the engine sees it. `exit_code` is None until it has ended; `addresses` is {network:
    ip}."""

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
    """The kernel ended a program in this container because its memory was used up; `at` by the engine's clock."""

    container: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """`life_id` is another one once the machine has booted anew, and so lost what was set in its kernel and all that ran before
    `alive_since` (by the engine's clock). `devices` are slots beside cores and memory, in base units."""

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
    life_id: str = ""
    alive_since: datetime | None = None
    devices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image on the machine. `references` are its names, tags (`berth/python:1`) and digests
    (`name@sha256:…`)."""

    image_id: str
    references: tuple[str, ...]
    size_bytes: int
    labels: Mapping[str, str]
    architecture: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class LabelledObject:
    """A network or a volume."""

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
    """End of a process that was run to its end; `output` is stdout and stderr together, cut at the caller's
    limit."""

    exit_code: int
    output: bytes


OnProgress = Callable[[PullProgress], None]


class ContainerRuntime(ABC):
    """One engine, for workers. Thread-safe. Every method may raise `RuntimeUnavailable` and `RuntimeRefused`."""

    @abstractmethod
    def info(self) -> EngineInfo:
        """Facts of the machine; also the heartbeat: an answer means that the engine lives."""

    @abstractmethod
    def close(self) -> None:
        """Lets connections go. The object is not used afterwards."""

    # Images

    @abstractmethod
    def list_images(self) -> list[ImageInfo]:
        """Images that have at least one name, by first name. `architecture` may be empty in a list."""

    @abstractmethod
    def inspect_image(self, reference: str) -> ImageInfo | None:
        """The image of this name or id, or None where the machine does not have it."""

    @abstractmethod
    def pull_image(
        self,
        reference: str,
        *,
        on_progress: OnProgress,
        credentials: RegistryCredentials | None = None,
    ) -> ImageInfo:
        """Fetches the image; progress never goes back. Raises ImagePullFailed."""

    # Networks and volumes

    @abstractmethod
    def ensure_network(self, spec: NetworkSpec) -> None:
        """The network exists, alone in its subnet. Raises OutOfCapacity (pool used up), ContainerConflict."""

    @abstractmethod
    def remove_network(self, name: str) -> None:
        """The network is gone. Raises RuntimeRefused while containers are attached."""

    @abstractmethod
    def list_networks(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        """Networks that carry all these labels, by name."""

    @abstractmethod
    def ensure_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """The volume exists; content of an existing one is kept."""

    @abstractmethod
    def remove_volume(self, name: str) -> None:
        """The volume and its content are gone. Raises RuntimeRefused while a container holds it."""

    @abstractmethod
    def list_volumes(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        """Volumes that carry all these labels, by name."""

    # Containers

    @abstractmethod
    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        """The container exists (created, not started, if it is new) and its volumes have their owners. One
        of the same name with the same labels is taken as it is. Raises ImageMissing, ContainerConflict,
        OutOfCapacity."""

    @abstractmethod
    def start_container(self, name: str) -> None:
        """It runs, or has run. A running one is left alone. Raises ContainerGone, NetworkMissing, OutOfCapacity."""

    @abstractmethod
    def stop_container(self, name: str, grace_s: int) -> None:
        """It does not run: asked by its `stop_signal`, killed after `grace_s`. An absent one is a success."""

    @abstractmethod
    def remove_container(self, name: str) -> None:
        """It is gone, killed if need be; its named volumes stay. An absent one is a success."""

    @abstractmethod
    def inspect_container(self, name: str) -> ContainerState | None:
        """Its state now, or None where there is none."""

    @abstractmethod
    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerState]:
        """Containers in any state that carry all these labels, by name. Exit codes, errors and instants may
        be absent in a list; `inspect_container` has them."""

    @abstractmethod
    def list_memory_kills(self, labels: Mapping[str, str]) -> list[MemoryKill]:
        """Those in containers that carry all these labels, oldest first, as far back as the engine remembers: some
        hundred events of all kinds. One of this very second may be missing still."""

    @abstractmethod
    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        """Runs it to its end and removes it, whatever came of it. Raises ImageMissing and, when it is still under way
        after `timeout_s`, ProcessTimeout."""

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
        """Starts it detached; nobody waits for it. Raises ContainerGone."""

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
        """Runs it to its end; a program that is not there gives 126 or 127. Raises ContainerGone and, when it
        is silent for `timeout_s` or longer under way than that, ProcessTimeout."""

    @abstractmethod
    def read_log_tail(self, name: str, *, limit_bytes: int) -> LogTail:
        """The last entries of stdout and stderr, in the engine's order, of together at most `limit_bytes`. Raises
        ContainerGone if it is absent."""

    def read_logs(self, name: str, *, limit_bytes: int = 2**20) -> bytes:
        """The text of `read_log_tail`."""
        return self.read_log_tail(name, limit_bytes=limit_bytes).text

    @abstractmethod
    def put_archive(self, name: str, path: str, tar_bytes: bytes) -> None:
        """Unpacks a tar at `path`, into mounted volumes too; the container need not run. Raises
        ContainerGone."""
