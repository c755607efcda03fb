"""Prints what NVIDIA's library tells of the GPUs of this machine and of their MIG instances, as JSON.
Stand-alone: it needs pynvml, NVIDIA's bindings of one file.

{"driver": "575.57", "cuda": 12090, "devices": [...]}; what a device does not tell is absent. A GPU
that does not answer, as one that fell off its bus, is absent too. If the library fails as a whole,
{"error": text} and exit code 1.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import pynvml

MIB = 2**20
MOST_EVENTS = 64
SLOWED_DOWN = 0x20 | 0x40 | 0x80  # by heat, by the machine's sensor of heat, by its power supply
_MIG_NAME = re.compile(r" MIG (\S+)")

Json = dict[str, Any]


def report() -> Json:
    """Return what the library tells now. Raises NVMLError if it fails as a whole."""
    pynvml.nvmlInit()
    try:
        handles = dict(_handles(pynvml.nvmlDeviceGetCount()))
        links = link_groups(list(handles.values()))
        devices: list[Json] = []
        for group, (index, handle) in zip(links, handles.items(), strict=True):
            try:
                gpu = _gpu(index, handle) | ({"links": group} if group else {})
            except pynvml.NVMLError:
                continue
            devices += [gpu, *_instances(gpu, handle)]
        return {
            "driver": _told(pynvml.nvmlSystemGetDriverVersion),
            "cuda": _told(pynvml.nvmlSystemGetCudaDriverVersion_v2),
            "devices": devices,
        }
    finally:
        _told(pynvml.nvmlShutdown)


def measures(*, has_health: bool) -> list[Json]:
    """Return the use of each GPU and MIG instance, by uuid, and with `has_health` their health; the
    library is open. Raises NVMLError if it fails as a whole.
    """
    found: list[Json] = []
    for _, handle in _handles(pynvml.nvmlDeviceGetCount()):
        try:
            gpu = {
                "uuid": pynvml.nvmlDeviceGetUUID(handle),
                **_memory(pynvml.nvmlDeviceGetMemoryInfo(handle)),
                **_use(handle),
                **(_health(handle) if has_health else {}),
            }
        except pynvml.NVMLError:
            continue
        mode = _told(pynvml.nvmlDeviceGetMigMode, handle)
        found += [_without_unknown(gpu), *_instances({**gpu, "mig": mode and mode[0]}, handle)]
    return found


def _handles(count: int) -> Iterator[tuple[int, Any]]:
    for index in range(count):
        handle = _told(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is not None:
            yield index, handle


def _gpu(index: int, handle: Any) -> Json:
    """Return one GPU. Raises NVMLError if it does not tell its id and memory."""
    pci = _told(pynvml.nvmlDeviceGetPciInfo, handle)
    capability = _told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    mode = _told(pynvml.nvmlDeviceGetMigMode, handle)
    gpu = {
        "index": index,
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "name": pynvml.nvmlDeviceGetName(handle),
        "minor": _told(pynvml.nvmlDeviceGetMinorNumber, handle),
        "pci": None if pci is None else pci.busId,
        "numa": _told(pynvml.nvmlDeviceGetNumaNodeId, handle),
        "cc": None if capability is None else "{}.{}".format(*capability),
        "mig": None if mode is None else mode[0],
        **_memory(pynvml.nvmlDeviceGetMemoryInfo(handle)),
        **_use(handle),
        **_health(handle),
    }
    return _without_unknown(gpu)


def _memory(memory: Any) -> Json:
    return {"mem_total": memory.total, "mem_used": memory.used}


def _use(handle: Any) -> Json:
    # Devices split into instances report no utilisation, and passive ones may report no power.
    rates = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
    milliwatts = _told(pynvml.nvmlDeviceGetPowerUsage, handle)
    return {
        "util": None if rates is None else rates.gpu,
        "watts": None if milliwatts is None else milliwatts / 1000,
        "celsius": _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "processes": _processes(handle),
    }


def _processes(handle: Any) -> list[Json] | None:
    """Return the programs that compute, by the machine's process ids; None: unknown."""
    found = _told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if found is None:
        return None
    return [_without_unknown({"pid": each.pid, "mem": each.usedGpuMemory}) for each in found]


def _health(handle: Any) -> Json:
    rows = _told(pynvml.nvmlDeviceGetRemappedRows, handle)
    reasons = _told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    return {
        "recovery_action": _field(handle, pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
        "remap_pending": None if rows is None else int(rows[2]),
        "remap_failure": None if rows is None else int(rows[3]),
        "ecc_uncorrected": _told(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        "throttle": None if reasons is None else int(bool(reasons & SLOWED_DOWN)),
    }


class Events:
    """Errors (Xid) that the driver reported since this object exists, by uuid of the GPU."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = {}
        self._set: Any = None
        try:
            self._set = pynvml.nvmlEventSetCreate()
            for number in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(number)
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError:
            self._set = None

    def xids(self) -> dict[str, list[int]] | None:
        """Return the numbers, each once, in the order of their first report; None: the driver tells none."""
        if self._set is None:
            return None
        for _ in range(MOST_EVENTS):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
                uuid = pynvml.nvmlDeviceGetUUID(event.device)
            except pynvml.NVMLError:  # also: there are no more
                break
            numbers = self._found.setdefault(uuid, [])
            if event.eventData not in numbers and len(numbers) < MOST_EVENTS:
                numbers.append(int(event.eventData))
        return self._found


def _field(handle: Any, number: int) -> int | None:
    """Return a field of a small number, or None if the driver does not know it."""
    values = _told(pynvml.nvmlDeviceGetFieldValues, handle, [number])
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def _instances(gpu: Json, handle: Any) -> Iterator[Json]:
    """Yield the MIG instances of a GPU: with its place in the machine, and their own memory and use."""
    if not gpu.get("mig"):
        return
    for number in range(_told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = _told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        memory = None if instance is None else _told(pynvml.nvmlDeviceGetMemoryInfo, instance)
        uuid = None if instance is None else _told(pynvml.nvmlDeviceGetUUID, instance)
        if memory is None or uuid is None:
            continue
        yield _without_unknown(
            {
                **{name: gpu.get(name) for name in ("index", "name", "minor", "pci", "numa", "cc")},
                "uuid": uuid,
                "parent": gpu["uuid"],
                "profile": _profile(instance),
                "gpu_instance": _told(pynvml.nvmlDeviceGetGpuInstanceId, instance),
                "compute_instance": _told(pynvml.nvmlDeviceGetComputeInstanceId, instance),
                "processes": _processes(instance),
                **_memory(memory),
            }
        )


def _profile(instance: Any) -> str:
    """Return the size of an instance, such as "1g.10gb", by its name or else by what it has."""
    named = _MIG_NAME.search(_told(pynvml.nvmlDeviceGetName, instance) or "")
    if named:
        return named.group(1)
    has = _told(pynvml.nvmlDeviceGetAttributes, instance)
    if has is None:
        return "unknown"
    part = "" if has.computeInstanceSliceCount == has.gpuInstanceSliceCount else "c."
    prefix = f"{has.computeInstanceSliceCount}{part}" if part else ""
    return f"{prefix}{has.gpuInstanceSliceCount}g.{math.ceil(has.memorySizeMB / 1024)}gb"


def link_groups(handles: Sequence[Any]) -> list[int]:
    """Return for each device the number, from 1, of the first device that it reaches by NVLink,
    directly, through others or a switch, itself included; 0 if it reaches none.
    """
    first = [0] * len(handles)
    for one, other in combinations(range(len(handles)), 2):
        if _are_linked(handles[one], handles[other]):
            joined = {first[one] or one + 1, first[other] or other + 1}
            for each in {one, other, *(n for n, group in enumerate(first) if group in joined)}:
                first[each] = min(joined)
    return first


def _are_linked(one: Any, other: Any) -> bool:
    # Not reported by older drivers and devices without NVLink.
    status = _told(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _told(query: Callable[..., Any], *arguments: Any) -> Any:
    """Return the library's answer, or None if it has none."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def _without_unknown(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


if __name__ == "__main__":
    try:
        json.dump(report(), sys.stdout)
    except pynvml.NVMLError as error:
        json.dump({"error": str(error)}, sys.stdout)
        sys.exit(1)
