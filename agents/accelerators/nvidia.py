"""Measurement of NVIDIA GPUs by NVML in this process."""

from typing import Any

import pynvml
import structlog

from agents.accelerators.base import AcceleratorMeasurement, DeviceUse
from agents.accelerators.probe import nvml

log = structlog.get_logger(__name__)


class NvidiaMeasurement(AcceleratorMeasurement):
    def measure(self) -> tuple[DeviceUse, ...]:
        try:
            devices = nvml.report()["devices"]
        except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
            return ()
        except pynvml.NVMLError as error:
            log.warning("nvidia.not_measured", error=str(error))
            return ()
        return tuple(map(_use, devices))


def _use(device: dict[str, Any]) -> DeviceUse:
    return DeviceUse(
        device_id=device["uuid"],
        percent=device.get("util"),
        mem_bytes=device["mem_used"],
        mem_total_bytes=device["mem_total"],
        watts=device.get("watts"),
        celsius=device.get("celsius"),
    )
