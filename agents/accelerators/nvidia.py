"""Discovery and measurement of NVIDIA GPUs, by NVML."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeVar

import pynvml
import structlog

from agents.accelerators.base import AcceleratorDevice, AcceleratorDiscovery, DeviceUse

log = structlog.get_logger(__name__)
T = TypeVar("T")

MILLI = 1000


class NvidiaDiscovery(AcceleratorDiscovery):
    vendor = "nvidia"

    def discover(self) -> tuple[AcceleratorDevice, ...] | None:
        return _with_nvml(_devices, "discovery.failed")

    def measure(self) -> tuple[DeviceUse, ...]:
        return _with_nvml(_uses, "discovery.not_measured") or ()


def _with_nvml(query: Callable[[int], tuple[T, ...]], failure: str) -> tuple[T, ...] | None:
    """Return `query(number of devices)` within one session of the library; () without a driver, None
    if it fails.
    """
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return ()
    except pynvml.NVMLError as error:
        log.warning(failure, vendor=NvidiaDiscovery.vendor, error=str(error))
        return None
    try:
        return query(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        log.warning(failure, vendor=NvidiaDiscovery.vendor, error=str(error))
        return None
    finally:
        _optional(pynvml.nvmlShutdown)


def _devices(count: int) -> tuple[AcceleratorDevice, ...]:
    answers = [(index, _query_device(_device, index)) for index in range(count)]
    present = [(index, device) for index, device in answers if device is not None]
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index, _ in present]
    # A link group is named by the index of its first device.
    groups = [None if first is None else present[first][0] for first in _link_groups(handles)]
    return tuple(
        replace(device, link_group=group) for (_, device), group in zip(present, groups, strict=True)
    )


def _uses(count: int) -> tuple[DeviceUse, ...]:
    return tuple(use for index in range(count) if (use := _query_device(_use, index)) is not None)


def _query_device(query: Callable[[int], T], index: int) -> T | None:
    """Return the answer, or None for a device that does not answer, e.g. one that fell off its bus."""
    try:
        return query(index)
    except pynvml.NVMLError as error:
        log.warning("discovery.device_silent", vendor=NvidiaDiscovery.vendor, index=index, error=str(error))
        return None


def _device(index: int) -> AcceleratorDevice:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return AcceleratorDevice(
        vendor=NvidiaDiscovery.vendor,
        slot_name="cuda",
        device_id=_text(pynvml.nvmlDeviceGetUUID(handle)),
        index=index,
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        mem_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        numa_node=_numa_node(handle),
        pci_address=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
    )


def _use(index: int) -> DeviceUse | None:
    """Return the use, or None for a device that reports neither utilisation nor memory."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    device_id = _text(pynvml.nvmlDeviceGetUUID(handle))
    # Devices split into instances report no utilisation, and passive ones may report no power.
    rates = _optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if rates is None and memory is None:
        return None
    milliwatts = _optional(pynvml.nvmlDeviceGetPowerUsage, handle)
    return DeviceUse(
        device_id=device_id,
        percent=None if rates is None else int(rates.gpu),
        mem_bytes=None if memory is None else int(memory.used),
        mem_total_bytes=None if memory is None else int(memory.total),
        watts=None if milliwatts is None else milliwatts / MILLI,
        celsius=_optional(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
    )


def _optional(query: Callable[..., Any], *arguments: Any) -> Any:
    """Return the library's answer, or None if it has none."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def _numa_node(handle: Any) -> int | None:
    # Older drivers, and machines with one node, do not report it.
    node = _optional(pynvml.nvmlDeviceGetNumaNodeId, handle)
    return None if node is None else int(node)


def _link_groups(handles: Sequence[Any]) -> list[int | None]:
    """Return for each device the position of the first device that it reaches by NVLink, directly,
    through others or a switch, itself included; None if it reaches none.
    """
    first: list[int | None] = [None] * len(handles)
    for one, other in combinations(range(len(handles)), 2):
        if _are_linked(handles[one], handles[other]):
            joined = {
                one if first[one] is None else first[one],
                other if first[other] is None else first[other],
            }
            members = {one, other, *(n for n, group in enumerate(first) if group in joined)}
            for each in members:
                first[each] = min(members)
    return first


def _are_linked(one: Any, other: Any) -> bool:
    try:
        status = pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except pynvml.NVMLError:
        return False  # not reported by older drivers and devices without NVLink
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
