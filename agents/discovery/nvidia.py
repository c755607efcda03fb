"""NVIDIA, by NVML."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pynvml
import structlog

from agents.discovery.base import AcceleratorDevice, AcceleratorDiscovery

log = structlog.get_logger(__name__)


class NvidiaDiscovery(AcceleratorDiscovery):
    vendor = "nvidia"

    def discover(self) -> tuple[AcceleratorDevice, ...]:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return ()  # no driver on this machine
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
            groups = _link_groups(handles)
            return tuple(_device(*each) for each in zip(range(len(handles)), handles, groups, strict=True))
        except pynvml.NVMLError as error:
            log.warning("discovery.failed", vendor=self.vendor, error=str(error))
            return ()
        finally:
            pynvml.nvmlShutdown()


def _device(index: int, handle: Any, link_group: int | None) -> AcceleratorDevice:
    return AcceleratorDevice(
        vendor=NvidiaDiscovery.vendor,
        slot_name="cuda",
        device_id=_text(pynvml.nvmlDeviceGetUUID(handle)),
        index=index,
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        mem_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        numa_node=_numa_node(handle),
        link_group=link_group,
        pci_address=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
    )


def _numa_node(handle: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetNumaNodeId(handle))
    except pynvml.NVMLError:
        return None  # older drivers, and machines with one node, do not say


def _link_groups(handles: Sequence[Any]) -> list[int | None]:
    """For each device the first of those that it reaches by NVLink, itself among them, straight, over others or a switch; None where it
    reaches none."""
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
        return False  # older drivers, and devices without any, do not say
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
