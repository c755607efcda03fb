"""NVIDIA, by NVML."""

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
            return tuple(_device(index) for index in range(pynvml.nvmlDeviceGetCount()))
        except pynvml.NVMLError as error:
            log.warning("discovery.failed", vendor=self.vendor, error=str(error))
            return ()
        finally:
            pynvml.nvmlShutdown()


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


def _numa_node(handle: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetNumaNodeId(handle))
    except pynvml.NVMLError:
        return None  # older drivers, and machines with one node, do not say


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
