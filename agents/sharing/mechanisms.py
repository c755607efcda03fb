"""Mechanisms that keep a session within its part of a device, and the check of what they really do.

`prepare` runs before the container exists, `verify` on the running container, `release` after its end.
All call engines, never the database. What is not read back is not claimed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from agents.accelerators.grant import BoundPath, DeviceGrant, SharedVolume
from agents.core.isolation import Isolation, SharingMode, usable_mode
from agents.machines.helper_containers import one_off_labels
from agents.models import Agent, AgentDevice, SharingRule
from agents.runtime.port import (
    ContainerRuntime,
    DeviceUnavailable,
    HelperSpec,
    MountSpec,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.sharing import mps
from agents.sharing.helper_containers import (
    NOTE_LENGTH,
    ROLE,
    device_grant,
    image_for,
    run_nvml_admin,
    script,
    text_of,
)
from agents.vendors.sharing import sharing_modes
from common.values.resources import MILLI

MIB = 2**20
NVIDIA = "nvidia"
HELPER_TIMEOUT_S = 60
LIBRARY = "libvgpu.so"
LIBRARY_DIRECTORY = "/usr/local/berth-share"
HOOK_CACHE = "/tmp/.berth-share-cache"
HOOK_CACHE_BYTES = 64 * 1024


class HelperMissing(DeviceUnavailable):
    """The mechanism that limits parts of a device is missing, so the device can be given to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Part of a device, of `milli` thousandths, for one container; `labels` are for its engine objects."""

    agent: Agent
    device: AgentDevice
    milli: int
    rule: SharingRule
    container: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def mem_bytes(self) -> int:
        return self.device.mem_bytes * self.milli // MILLI // MIB * MIB

    @property
    def percent(self) -> int:
        return max(1, self.milli * 100 // MILLI)


@dataclass(frozen=True, slots=True)
class Finding:
    """Isolation that was read back on the running container; `note` says why it is less than configured."""

    isolation: Isolation
    note: str = ""


class Mechanism(Protocol):
    def prepare(self, share: Share, runtime: ContainerRuntime) -> DeviceGrant:
        """Make what the container needs and return what it gets besides the device. May be repeated.
        Raises HelperMissing, RuntimeFault.
        """

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        """Return what protects the running container now. Raises RuntimeUnavailable only."""

    def release(self, share: Share, runtime: ContainerRuntime) -> None:
        """Remove what `prepare` made for this container alone. Raises RuntimeFault."""


class TimeSlices:
    """Turns on the device, without any limit."""

    def prepare(self, share: Share, runtime: ContainerRuntime) -> DeviceGrant:
        return DeviceGrant()

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        return Finding(Isolation.NONE)

    def release(self, share: Share, runtime: ContainerRuntime) -> None:
        pass


class MemoryLimits(TimeSlices):
    """Limit of the container's device memory by the driver (R615 and newer, control groups version 2).

    The vendor's toolkit sets it before the first process where it knows the two variables; a helper
    sets it again on the running container and reads it back.
    """

    def prepare(self, share: Share, runtime: ContainerRuntime) -> DeviceGrant:
        mib = str(share.mem_bytes // MIB)
        return DeviceGrant(environment={"NVIDIA_GPU_MEMORY_REQUEST": mib, "NVIDIA_GPU_MEMORY_LIMIT": mib})

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        state = runtime.inspect_container(share.container)
        if state is None:
            return Finding(Isolation.NONE, "The container is gone.")
        words = (state.container_id, str(share.mem_bytes))
        answer = run_nvml_admin(runtime, share.agent, share.device, "limit", *words)
        if answer.get("limit") == share.mem_bytes:
            return Finding(Isolation.DRIVER)
        note = answer.get("error") or f"The driver says that the limit is {answer.get('limit') or 'not set'}."
        return Finding(Isolation.NONE, note)


class Mps(TimeSlices):
    """Limits of CUDA's Multi-Process Service, whose daemon for the device runs in a container of its own.

    Its limits hold for each process of each client, so all parts of a device are of one size. The limit
    of the driver is set too: where it holds, it is one for the whole session.
    """

    def __init__(self) -> None:
        self._memory = MemoryLimits()

    def prepare(self, share: Share, runtime: ContainerRuntime) -> DeviceGrant:
        try:
            ensure_daemon(share, runtime)
        except RuntimeUnavailable:
            raise
        except RuntimeFault as fault:
            raise HelperMissing(f"The MPS daemon of the device does not start: {fault}") from fault
        limits = self._memory.prepare(share, runtime).environment
        return DeviceGrant(
            environment={**limits, "CUDA_MPS_PIPE_DIRECTORY": mps.PIPES},
            volumes=(
                SharedVolume(mps.pipe_volume(share.device), mps.PIPES),
                SharedVolume(mps.shm_volume(share.device), "/dev/shm"),
            ),
        )

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        wanted = mps.DaemonSettings.of(share.device, share.milli)
        try:
            told = mps.read_settings(runtime, share.device)
        except RuntimeUnavailable:
            raise
        except RuntimeFault as fault:
            return Finding(Isolation.NONE, f"The MPS daemon does not answer: {fault}"[:NOTE_LENGTH])
        if told != wanted:
            return Finding(Isolation.NONE, f"The MPS daemon has other limits: {told}.")
        if self._memory.verify(share, runtime).isolation is Isolation.DRIVER:
            return Finding(Isolation.DRIVER_MPS)
        return Finding(Isolation.SERVER)


class HookLibrary(TimeSlices):
    """Library between programs and CUDA, from an image that an administrator named.

    A helper of that image, without any right on the machine, copies the library into a volume of the
    container, which gets it and the files that activate it read-only.
    """

    def prepare(self, share: Share, runtime: ContainerRuntime) -> DeviceGrant:
        volume = hook_volume(share.container)
        try:
            if runtime.inspect_image(share.rule.hook_image) is None:
                runtime.pull_image(share.rule.hook_image, on_progress=lambda progress: None)
            runtime.ensure_volume(volume, share.labels)
            done = runtime.run_helper(self._copier(share, volume), timeout_s=HELPER_TIMEOUT_S)
        except RuntimeUnavailable:
            raise
        except RuntimeFault as fault:
            raise HelperMissing(f"The image of the hook library cannot be used: {fault}") from fault
        if done.exit_code:
            raise HelperMissing(f"{share.rule.hook_image} gave no hook library: {text_of(done)}")
        files = f"{runtime.info().root_dir}/volumes/{volume}/_data"
        return DeviceGrant(
            environment=self._limits(share),
            volumes=(SharedVolume(volume, LIBRARY_DIRECTORY, is_readonly=True),),
            binds=(
                BoundPath(f"{files}/ld.so.preload", "/etc/ld.so.preload", is_in_engine=True),
                BoundPath(f"{files}/overrideEnv", "/overrideEnv", is_in_engine=True),
            ),
        )

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        library = f"{LIBRARY_DIRECTORY}/{LIBRARY}"
        is_there = f"cat /etc/ld.so.preload && test -r {library}"
        try:
            files = runtime.run_process(share.container, ["sh", "-c", is_there])
            # The first program that loads the library writes the limits into the cache.
            tool = runtime.run_process(share.container, ["nvidia-smi"])
            cache_file = runtime.run_process(
                share.container,
                ["head", "-c", str(HOOK_CACHE_BYTES), HOOK_CACHE],
                output_limit=HOOK_CACHE_BYTES,
            )
        except RuntimeUnavailable:
            raise
        except RuntimeFault as fault:
            return Finding(
                Isolation.NONE, f"The hook library was not found in the container: {fault}"[:NOTE_LENGTH]
            )
        if files.exit_code or library not in files.output.decode(errors="replace"):
            return Finding(Isolation.NONE, "The container has no hook library.")
        if cache_file.exit_code or not _has_number(cache_file.output, share.mem_bytes):
            return Finding(
                Isolation.NONE, f"The hook library does not show its limit: {text_of(tool)}"[:NOTE_LENGTH]
            )
        return Finding(Isolation.COOPERATIVE)

    def release(self, share: Share, runtime: ContainerRuntime) -> None:
        runtime.remove_volume(hook_volume(share.container))

    def _limits(self, share: Share) -> dict[str, str]:
        return {
            "CUDA_DEVICE_MEMORY_LIMIT": f"{share.mem_bytes // MIB}m",
            "CUDA_DEVICE_SM_LIMIT": str(share.percent),
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": HOOK_CACHE,
            "LIBCUDA_LOG_LEVEL": "0",
        }

    def _copier(self, share: Share, volume: str) -> HelperSpec:
        lines = "\n".join(f"{name}={value}" for name, value in self._limits(share).items())
        return HelperSpec(
            name=f"berth-hook-{uuid4().hex[:12]}",
            image=share.rule.hook_image,
            labels=one_off_labels(ROLE),
            command=("sh", "-c", script("hook_library.sh"), "sh", LIBRARY, LIBRARY_DIRECTORY, lines),
            mounts=(MountSpec("volume", "/share", volume),),
        )


class Partition(TimeSlices):
    """MIG instance, which the hardware separates; checked by the vendor's tool in the container."""

    def verify(self, share: Share, runtime: ContainerRuntime) -> Finding:
        try:
            listed = runtime.run_process(share.container, ["nvidia-smi", "-L"])
        except RuntimeUnavailable:
            raise
        except RuntimeFault as fault:
            return Finding(Isolation.UNKNOWN, str(fault)[:NOTE_LENGTH])
        found = {
            word.strip("():")
            for word in listed.output.decode(errors="replace").split()
            if word.startswith("MIG-")
        }
        if listed.exit_code or not found:
            return Finding(Isolation.UNKNOWN, "The image cannot run nvidia-smi, which would list the slice.")
        if found != {share.device.device_id}:
            return Finding(Isolation.NONE, "The container sees other slices than its own.")
        return Finding(Isolation.HARDWARE)


def ensure_daemon(share: Share, runtime: ContainerRuntime) -> None:
    """Start the MPS daemon of the device with the limits of the rule, unless it runs. One that runs with
    others is replaced only if no other session is on the device. Raises RuntimeFault.
    """
    device = share.device
    if device.occupied > share.milli and mps.is_running(runtime, device):
        return
    limits = mps.DaemonSettings.of(device, share.rule.smallest_share)
    spec = mps.daemon_spec(device, limits, image_for(runtime), device_grant(share.agent, device))
    mps.ensure_daemon(runtime, spec)


def end_daemon(agent: Agent, device: AgentDevice, runtime: ContainerRuntime) -> None:
    """End the MPS daemon of the device, which admits other programs again also if the daemon was killed;
    only then what is left of it is removed. May be repeated. Raises RuntimeFault.
    """
    runtime.stop_container(mps.daemon_name(device), mps.STOP_GRACE_S)
    if not mps.ended_well(runtime, device):
        opener = mps.opening_spec(device, image_for(runtime), device_grant(agent, device))
        done = runtime.run_helper(opener, timeout_s=HELPER_TIMEOUT_S)
        if done.exit_code:
            raise RuntimeFault(f"The device still admits no program without MPS: {text_of(done)}")
    mps.remove_daemon(runtime, mps.daemon_name(device))


MECHANISMS: Mapping[SharingMode, Mechanism] = {
    SharingMode.FORBIDDEN: TimeSlices(),
    SharingMode.SLICE: TimeSlices(),
    SharingMode.MEMORY: MemoryLimits(),
    SharingMode.MPS: Mps(),
    SharingMode.HOOK: HookLibrary(),
}
_PARTITION = Partition()


def mechanism_of(share: Share) -> Mechanism:
    """Return the mechanism for the part: that of the rule if the vendor has it, on real machines."""
    if share.device.parent_id:
        return _PARTITION
    if share.agent.is_simulated:
        return MECHANISMS[SharingMode.SLICE]
    return MECHANISMS[usable_mode(SharingMode(share.rule.mode), sharing_modes(share.device.vendor))]


def _has_number(content: bytes, number: int) -> bool:
    """Return True if the aligned number of 8 bytes is in the content."""
    wanted = number.to_bytes(8, "little")
    return any(content[at : at + 8] == wanted for at in range(0, len(content), 8))


def hook_volume(container: str) -> str:
    return f"{container}-hook"
