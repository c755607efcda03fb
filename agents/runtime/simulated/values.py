"""Images, logs, labels, usage and accelerators that a simulated engine reports."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from math import sin
from threading import Lock
from time import time
from zlib import crc32

from agents.accelerators.base import DeviceUse
from agents.runtime.docker.encoding import carries
from agents.runtime.docker.log_entries import LogEntry, LogTail
from agents.runtime.port import ContainerConflict, ImageInfo, LabelledObject
from agents.runtime.simulated.state import Container
from agents.runtime.usage import ContainerUsage
from common.values.resources import MILLI

IMAGE_BYTES = 100 * 2**20
IMAGE_ID_PREFIX = "sha256:"
DEVICE_MEM_BYTES = 80 * 2**30
DEVICE_PERCENT = 50
IDLE_ONE_IN = 7


class SimulatedDevices:
    """Accelerators of one simulated machine: constantly 50 % busy with a quarter of their memory, or
    as set by a test. Those of a `lively` machine vary with time; a seventh of them never computes.
    Thread-safe.
    """

    def __init__(self, devices: Mapping[str, int], lively: str = "") -> None:
        self._lock = Lock()
        self._lively = lively
        self._uses = {
            device_id: DeviceUse(
                device_id=device_id,
                percent=DEVICE_PERCENT,
                mem_bytes=DEVICE_MEM_BYTES // 4,
                mem_total_bytes=DEVICE_MEM_BYTES,
            )
            for slot_name, amount in devices.items()
            for index in range(amount // MILLI)
            for device_id in [f"{slot_name}-{index}"]  # as agents.machines.accelerators assigns them
        }

    def use(self, use: DeviceUse) -> None:
        """Set the use that a device reports from now on."""
        with self._lock:
            self._uses[use.device_id] = use

    def fall_silent(self, device_id: str) -> None:
        """Make a device report no use from now on."""
        with self._lock:
            self._uses.pop(device_id, None)

    def measure(self, held: Collection[str] = ()) -> tuple[DeviceUse, ...]:
        """Return the present use of the devices. On a lively machine only `held` ones compute."""
        with self._lock:
            uses = tuple(self._uses.values())
        if not self._lively:
            return uses
        return tuple(_lively_use(self._lively, use.device_id, use.device_id in held) for use in uses)


def _lively_use(machine: str, device_id: str, is_held: bool) -> DeviceUse:
    """Return the use of a device now: waves of some minutes, another one for each device."""
    number = crc32(f"{machine} {device_id}".encode())
    wave = sin(time() / (60 + number % 600) + number) / 2 + 0.5
    percent = 0 if not is_held or not number % IDLE_ONE_IN else round(100 * wave)
    mem_bytes = DEVICE_MEM_BYTES * (10 + number % 80) // 100 if is_held else 0
    return DeviceUse(
        device_id=device_id,
        percent=percent,
        mem_bytes=mem_bytes,
        mem_total_bytes=DEVICE_MEM_BYTES,
        watts=70.0 + 6 * percent,
        celsius=30 + number % 6 + percent * 4 // 10,
    )


def default_usage(container: Container) -> ContainerUsage:
    """Usage of half the cores and a quarter of the memory, with 1 MiB/s of network and disk traffic
    each way since the start.
    """
    now, spec = datetime.now(UTC), container.spec
    seconds = (now - (container.state.started_at or now)).total_seconds()
    moved = int(seconds * 2**20)
    return ContainerUsage(
        at=now,
        cpu_ns=int(seconds * spec.cpu_milli * 1_000_000 / 2),
        mem_bytes=spec.mem_bytes // 4,
        net_received_bytes=moved,
        net_sent_bytes=moved,
        disk_read_bytes=moved,
        disk_written_bytes=moved,
    )


def image(reference: str) -> ImageInfo:
    return ImageInfo(
        image_id=f"{IMAGE_ID_PREFIX}{reference}",
        references=(reference,),
        size_bytes=IMAGE_BYTES,
        labels={},
        architecture="x86_64",
        created_at=None,
    )


def make_log(output: bytes) -> LogTail:
    """Return the log of a container that wrote `output` to stdout, with one entry per line."""
    lines = enumerate(output.splitlines(keepends=True))
    return LogTail(tuple(LogEntry(1, b"2000-01-01T00:00:00.%09dZ" % number, line) for number, line in lines))


def check_labels(name: str, labels: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    if not carries(labels, wanted):
        raise ContainerConflict(f"{name} exists and is not ours.")


def labelled_objects(
    objects: Mapping[str, Mapping[str, str]], wanted: Mapping[str, str]
) -> list[LabelledObject]:
    return [
        LabelledObject(name, labels) for name, labels in sorted(objects.items()) if carries(labels, wanted)
    ]
