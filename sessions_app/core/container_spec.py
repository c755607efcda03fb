"""Builds the engine's container and network specs from a validated plan of a kernel. Pure.

No other code turns user input into an engine request.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agents.accelerators.grant import NO_DEVICES, DeviceGrant
from agents.runtime.docker.encoding import RAISE_OOM_SCORE
from agents.runtime.port import ContainerSpec, MountSpec, NetworkSpec
from common.values.resources import CPU, MEM, ResourceSlots
from sessions_app.core import cluster
from sessions_app.core.home_setup import BEGIN, SETUP
from sessions_app.core.main_process import STOP_SIGNAL, main_process

HOME = "/home/work"
TMP = "/tmp"
BIG_TMP = "/var/tmp"
SMALLEST_NETWORK = 28
"""Prefix length of the network of a single container. It has 13 addresses for containers."""
NETWORK_INTERFACE = "eth0"
"""Name in containers of the interface to the session's network."""
PIDS_LIMIT = 4096
LOG_BYTES = 16 * 2**20
INSTALLATION_LABEL = "io.berth.installation"
SESSION_LABEL = "io.berth.session"
KERNEL_LABEL = "io.berth.kernel"
ATTEMPT_LABEL = "io.berth.attempt"
POOLED_NETWORK_LABEL = "io.berth.mooring"
ACROSS_LABEL = "io.berth.across-machines"
"""Label of containers whose session is on several machines."""


@dataclass(frozen=True, slots=True)
class MountRequest:
    """Folder mounted in the container at `path`: of the machine's directory `source`, or of a volume with
    `options`. The volume has the name `source` if it is a directory in a folder, else none.
    """

    source: str
    path: str
    is_readonly: bool
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ArrayElement:
    """Position of a session in its array."""

    array_id: UUID
    index: int
    count: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All containers of a session, and which of them a plan is for."""

    members: Sequence[cluster.ClusterMember]
    own: cluster.ClusterMember


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddresses:
    """Network of a session on several machines, as one of its containers sees it: the subnet, the
    machine's own address in it, and the names and addresses of all containers.
    """

    subnet: str
    gateway: str
    mtu: int
    hosts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """All values that determine the spec of one container."""

    installation: str
    session_id: UUID
    kernel_id: UUID
    attempt: int
    session_name: str
    project: str
    kernel_name: str
    image: str
    command: str
    slots: ResourceSlots
    cpuset: str = ""
    shm_bytes: int
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[MountRequest] = ()
    uid: int
    gid: int
    network_pool: str
    has_readonly_root: bool = False
    has_setup: bool = False
    pooled_network_id: UUID | None = None
    element: ArrayElement | None = None
    grant: DeviceGrant = NO_DEVICES
    runtime: str = ""  # of the engine; "": its default
    cluster: ClusterPlan | None = None  # None: its only container
    addresses: ClusterAddresses | None = None  # None: on one machine


def container_name(kernel_id: UUID, attempt: int) -> str:
    return f"berth-{kernel_id.hex}-{attempt}"


def network_name(session_id: UUID) -> str:
    return f"berth-{session_id.hex}"


def pooled_network_name(pooled_network_id: UUID) -> str:
    return f"berth-net-{pooled_network_id.hex}"


def home_volume_name(kernel_id: UUID, attempt: int = 1) -> str:
    """Return the name of the home volume; each attempt has its own."""
    return f"berth-home-{kernel_id.hex}" if attempt == 1 else f"berth-home-{kernel_id.hex}-{attempt}"


def directory_volume_name(kernel_id: UUID, attempt: int, number: int) -> str:
    """Return the name of the volume of the mount of this number, if it is a directory in a folder."""
    return f"{home_volume_name(kernel_id, attempt)}-directory-{number}"


def session_labels(plan: KernelPlan) -> dict[str, str]:
    """Return the labels of every engine object that belongs to the session."""
    return {INSTALLATION_LABEL: plan.installation, SESSION_LABEL: str(plan.session_id)}


def kernel_labels(plan: KernelPlan) -> dict[str, str]:
    return {
        **session_labels(plan),
        KERNEL_LABEL: str(plan.kernel_id),
        ATTEMPT_LABEL: str(plan.attempt),
        **({ACROSS_LABEL: "true"} if plan.addresses else {}),
    }


def build_network_spec(plan: KernelPlan) -> NetworkSpec:
    """Return the spec of the session's network: its pooled network, or one named after the session."""
    if plan.pooled_network_id is not None:
        return build_pooled_network_spec(plan.installation, plan.pooled_network_id, plan.network_pool)
    if plan.addresses is not None:
        return NetworkSpec(
            name=network_name(plan.session_id),
            labels=session_labels(plan),
            subnet=plan.addresses.subnet,
            gateway=plan.addresses.gateway,
            mtu=plan.addresses.mtu,
        )
    return NetworkSpec(
        name=network_name(plan.session_id),
        labels=session_labels(plan),
        pool=plan.network_pool,
        prefix=network_prefix(len(plan.cluster.members) if plan.cluster else 1),
    )


def network_prefix(count: int) -> int:
    """Return the prefix length of a network for so many containers, the machine, and the network's own
    two addresses.
    """
    return min(SMALLEST_NETWORK, 32 - (count + 2).bit_length())


def build_pooled_network_spec(installation: str, pooled_network_id: UUID, pool: str) -> NetworkSpec:
    """Return the spec of a pooled network.

    Engines cannot change labels, so the network never carries a session's id.
    """
    labels = {INSTALLATION_LABEL: installation, POOLED_NETWORK_LABEL: str(pooled_network_id)}
    return NetworkSpec(name=pooled_network_name(pooled_network_id), labels=labels, pool=pool)


def build_container_spec(plan: KernelPlan) -> ContainerSpec:
    """Return the spec of one kernel's container.

    Without a command it sleeps, and apps are started in it. A command is passed to `sh -c` as one
    argument: the user's own shell interprets it inside the user's own container. The home setup
    (`home_setup`) runs before it. Stopping: `main_process`.
    """
    begin = f"if [ -r {BEGIN} ]; then sh {BEGIN}; fi; " if plan.has_setup else ""
    if plan.cluster:
        begin += f"if [ -r {cluster.BEGIN} ]; then sh {cluster.BEGIN}; fi; "
    if plan.command:
        command = main_process(f'{begin}{RAISE_OOM_SCORE}exec sh -c "$1"', plan.command)
    else:
        command = main_process(f"{begin}exec sleep infinity")
    home = MountSpec(
        kind="volume",
        source=home_volume_name(plan.kernel_id, plan.attempt),
        target=HOME,
        owner=(plan.uid, plan.gid),
    )
    targets = [SETUP] * plan.has_setup + [cluster.DIRECTORY] * (plan.cluster is not None)
    setup = tuple([MountSpec(kind="volume", target=target) for target in targets])
    folders = tuple(map(_folder_mount, plan.mounts))
    return ContainerSpec(
        name=container_name(plan.kernel_id, plan.attempt),
        image=plan.image,
        labels=kernel_labels(plan),
        command=command,
        stop_signal=STOP_SIGNAL,
        environment=build_environment(plan),
        user=f"{plan.uid}:{plan.gid}",
        working_dir=HOME,
        hostname=plan.kernel_name,
        network=build_network_spec(plan).name,
        aliases=(plan.kernel_name,),
        address=dict(plan.addresses.hosts)[plan.kernel_name] if plan.addresses else "",
        hosts=plan.addresses.hosts if plan.addresses else (),
        cpu_milli=plan.slots[CPU],
        cpuset=plan.cpuset,
        mem_bytes=plan.slots[MEM],
        shm_bytes=plan.shm_bytes,
        pids_limit=PIDS_LIMIT,
        log_bytes=LOG_BYTES,
        is_readonly=plan.has_readonly_root,
        mounts=(home, *setup, *scratch_mounts(plan), *folders),
        grant=plan.grant,
        runtime=plan.runtime,
    )


def _folder_mount(mount: MountRequest) -> MountSpec:
    return MountSpec(
        kind="volume" if mount.options else "bind",
        source=mount.source,
        target=mount.path,
        is_readonly=mount.is_readonly,
        options=mount.options,
    )


def scratch_mounts(plan: KernelPlan) -> tuple[MountSpec, ...]:
    """Return temporary directories for a container with a read-only root.

    A small one in memory, which counts as the session's memory, and a large one on disk.
    """
    if not plan.has_readonly_root:
        return ()
    return (
        MountSpec(kind="tmpfs", target=TMP, size_bytes=plan.slots[MEM] // 2),
        MountSpec(kind="volume", target=BIG_TMP),
    )


def build_environment(plan: KernelPlan) -> dict[str, str]:
    """Return the environment: the user's variables, then Berth's, which the user cannot override."""
    cores = max(1, plan.slots[CPU] // 1000)
    threads = {"OMP_NUM_THREADS": str(cores), "OPENBLAS_NUM_THREADS": str(cores)}
    # Ranks of NCCL find each other in the session's own network; users may choose otherwise.
    ranks = {"NCCL_SOCKET_IFNAME": NETWORK_INTERFACE} if plan.grant != NO_DEVICES else {}
    if plan.cluster:
        ranks = cluster.cluster_variables(plan.cluster.members, plan.cluster.own, NETWORK_INTERFACE)
    scratch = {"TMPDIR": BIG_TMP} if plan.has_readonly_root else {}
    return {
        **threads,
        **ranks,
        **scratch,
        **plan.environment,
        "HOME": HOME,
        "USER": "work",
        "BERTH_SESSION_ID": str(plan.session_id),
        "BERTH_SESSION_NAME": plan.session_name,
        "BERTH_PROJECT": plan.project,
        "BERTH_KERNEL_ID": str(plan.kernel_id),
        "BERTH_KERNEL": plan.kernel_name,
        "BERTH_CPU_MILLI": str(plan.slots[CPU]),
        "BERTH_MEM_BYTES": str(plan.slots[MEM]),
        **(cluster.berth_variables(plan.cluster.members, plan.cluster.own) if plan.cluster else {}),
        **_array_variables(plan.element),
    }


def _array_variables(element: ArrayElement | None) -> dict[str, str]:
    if element is None:
        return {}
    return {
        "BERTH_ARRAY_ID": str(element.array_id),
        "BERTH_ARRAY_INDEX": str(element.index),
        "BERTH_ARRAY_COUNT": str(element.count),
    }


def build_app_argv(command: Sequence[str], *, port: int, start_dir: str) -> tuple[str, ...]:
    """Return the argv of the process that serves an app, with `{port}` and `{start_dir}` filled in.

    `{token}` becomes $BERTH_APP_TOKEN, so that no process list of the engine shows the secret.
    Output goes to that of the container's first process, and so into the session's log.
    """

    def filled(part: str) -> str:
        return shlex.quote(part.replace("{port}", str(port)).replace("{start_dir}", start_dir))

    # Filled-in values may contain "{token}", so the words are split before substitution.
    line = " ".join('"$BERTH_APP_TOKEN"'.join(map(filled, word.split("{token}"))) for word in command)
    return ("sh", "-c", f"exec {line} >/proc/1/fd/1 2>&1")
