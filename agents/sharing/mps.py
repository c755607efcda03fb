"""Daemon of CUDA's Multi-Process Service, one for each device, in a long-running helper container.

The daemon sets the limits of each client itself, so a session cannot unset them. All clients of a device
share its limits, and the /dev/shm of the daemon.
"""

import re
from dataclasses import dataclass

from agents.accelerators.grant import DeviceGrant
from agents.machines.helper_containers import helper_labels, one_off_labels
from agents.models import AgentDevice
from agents.runtime.port import (
    ContainerRuntime,
    ContainerStatus,
    HelperSpec,
    MountSpec,
    RuntimeFault,
)
from agents.sharing.helper_containers import script
from common.values.resources import MILLI

PIPES = "/run/nvidia-mps"
PIPES_VOLUME, SHM_VOLUME = "-pipes", "-shm"
SHM_BYTES = 2**30
LOG_BYTES = 8 * 2**20
MIB = 2**20
STOP_GRACE_S = 5
ROLE = "mps"
DEVICE_LABEL = "io.berth.device"
_UNITS = {"K": 2**10, "M": MIB, "G": 2**30}


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """Limits of each client: memory in MiB, and percent of the multiprocessors."""

    mem_mib: int
    percent: int

    @classmethod
    def of(cls, device: AgentDevice, milli: int) -> "DaemonSettings":
        """Return the limits for a part of the device."""
        return cls(device.mem_bytes * milli // MILLI // MIB, max(1, milli * 100 // MILLI))

    def __str__(self) -> str:
        return f"{self.mem_mib} MiB and {self.percent} %"


def daemon_name(device: AgentDevice) -> str:
    return f"berth-mps-{device.pk}"


def pipe_volume(device: AgentDevice) -> str:
    return f"{daemon_name(device)}{PIPES_VOLUME}"


def shm_volume(device: AgentDevice) -> str:
    return f"{daemon_name(device)}{SHM_VOLUME}"


def daemon_spec(device: AgentDevice, limits: DaemonSettings, image: str, grant: DeviceGrant) -> HelperSpec:
    """Return the helper that runs the daemon. It is not restarted by the engine: its end is an event that
    Berth must see, because the programs of all clients fail with it.
    """
    return HelperSpec(
        name=daemon_name(device),
        image=image,
        labels=helper_labels(ROLE) | {DEVICE_LABEL: str(device.pk)},
        command=("sh", "-c", script("mps_daemon.sh"), "mps", str(limits.mem_mib), str(limits.percent)),
        environment={"CUDA_MPS_PIPE_DIRECTORY": PIPES, "CUDA_MPS_LOG_DIRECTORY": "/tmp"},
        mounts=(
            MountSpec("volume", PIPES, pipe_volume(device)),
            MountSpec("volume", "/dev/shm", shm_volume(device)),
            MountSpec("tmpfs", "/tmp", size_bytes=LOG_BYTES),
        ),
        grant=grant,
        sees_processes=True,
        is_privileged=True,
        mem_bytes=SHM_BYTES + 512 * MIB,
    )


def ensure_daemon(runtime: ContainerRuntime, spec: HelperSpec) -> None:
    """Start the daemon unless it runs. One with other limits is replaced; the caller makes sure that it
    has no clients. Raises RuntimeFault.
    """
    for mount in spec.mounts:
        if mount.kind == "volume":
            tmpfs_bytes = SHM_BYTES if mount.target == "/dev/shm" else 0
            runtime.ensure_volume(mount.source, spec.labels, tmpfs_bytes=tmpfs_bytes)
    runtime.ensure_helper(spec)


def is_running(runtime: ContainerRuntime, device: AgentDevice) -> bool:
    state = runtime.inspect_container(daemon_name(device))
    return state is not None and state.status is ContainerStatus.RUNNING


def read_settings(runtime: ContainerRuntime, device: AgentDevice) -> DaemonSettings:
    """Return the limits that the daemon states. Raises RuntimeFault, also for an answer without them."""
    memory = _ask(runtime, device, "get_default_device_pinned_mem_limit 0")
    percent = _ask(runtime, device, "get_default_active_thread_percentage")
    amount, share = re.search(r"(\d+)\s*([KMG])?", memory), re.search(r"\d+(\.\d+)?", percent)
    if amount is None or share is None:
        raise RuntimeFault(f"it states no limits: {memory!r}, {percent!r}")
    return DaemonSettings(int(amount[1]) * _UNITS.get(amount[2] or "", 1) // MIB, int(float(share[0])))


def end_clients(runtime: ContainerRuntime, device: AgentDevice, pids: set[int]) -> None:
    """Have the daemon end these programs (process ids of the machine) before their container stops.
    Stopping one with work under way would break the work of all others. Raises RuntimeFault.
    """
    for server in _ask(runtime, device, "get_server_list").split():
        for client in _ask(runtime, device, f"get_client_list {server}").split():
            if client.isdigit() and int(client) in pids:
                _ask(runtime, device, f"terminate_client {server} {client}")


def remove_daemon(runtime: ContainerRuntime, name: str) -> None:
    """End the daemon in this container and remove what it used. Succeeds if it is absent. Raises
    RuntimeFault.
    """
    runtime.stop_container(name, STOP_GRACE_S)  # it makes the device usable by others again
    runtime.remove_container(name)
    runtime.remove_volume(f"{name}{PIPES_VOLUME}")
    runtime.remove_volume(f"{name}{SHM_VOLUME}")


def ended_well(runtime: ContainerRuntime, device: AgentDevice) -> bool:
    """Return True if the daemon ended by itself and left the device open to all programs; False if it was
    killed, or nothing is known of it. Raises RuntimeFault.
    """
    state = runtime.inspect_container(daemon_name(device))
    return state is not None and state.status is ContainerStatus.EXITED and state.exit_code == 0


def opening_spec(device: AgentDevice, image: str, grant: DeviceGrant) -> HelperSpec:
    """Return the helper that opens the device to all programs again, as a daemon does at its end."""
    return HelperSpec(
        name=f"{daemon_name(device)}-open",
        image=image,
        labels=one_off_labels(ROLE),
        command=("nvidia-smi", "--compute-mode=DEFAULT"),
        grant=grant,
        is_privileged=True,
    )


def _ask(runtime: ContainerRuntime, device: AgentDevice, command: str) -> str:
    """Return the daemon's answer to a command of its control program. Raises RuntimeFault."""
    line = f"echo '{command}' | nvidia-cuda-mps-control"
    done = runtime.run_process(daemon_name(device), ["sh", "-c", line], user="0:0", timeout_s=10)
    text = done.output.decode(errors="replace").strip()
    if done.exit_code:
        raise RuntimeFault(text or f"{command}: exit code {done.exit_code}")
    return text
