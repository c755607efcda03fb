"""Helper containers for sharing: their image, labels and devices, and the program for NVIDIA's library."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from agents.accelerators.grant import DeviceGrant, join_grants
from agents.machines.grants import DevicePart, grant_devices
from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.models import Agent, AgentDevice
from agents.runtime.port import (
    HELPER_FILES_AT,
    ContainerRuntime,
    HelperSpec,
    ImageMissing,
    ProcessResult,
    RuntimeFault,
    RuntimeUnavailable,
)
from common.values.resources import MILLI
from images.selectors import built_image_ids

ROLE = "sharing"
NVML_ADMIN = "nvml_admin.py"
TIMEOUT_S = 60
NOTE_LENGTH = 300


def image_for(runtime: ContainerRuntime) -> str:
    """Return the id of an image on the machine that may run as a helper. One query. Raises ImageMissing."""
    image_id = helper_image(runtime, built_image_ids())
    if image_id is None:
        raise ImageMissing(f"The helper cannot run: {NO_IMAGE}.")
    return image_id


def device_grant(agent: Agent, device: AgentDevice, *, may_partition: bool = False) -> DeviceGrant:
    """Return what gives a helper the whole device. Raises DeviceUnavailable."""
    granted = grant_devices(agent, [DevicePart(device, MILLI)])
    if not may_partition:
        return granted
    return join_grants(granted, DeviceGrant(environment={"NVIDIA_MIG_CONFIG_DEVICES": "all"}))


def run_nvml_admin(
    runtime: ContainerRuntime, agent: Agent, device: AgentDevice, command: str, *arguments: str
) -> dict[str, Any]:
    """Run a command of `nvml_admin` for the device and return its answer; {"error": …} if it fails.
    Raises RuntimeUnavailable only.
    """
    try:
        grant = device_grant(agent, device, may_partition=command == "layout")
        words = (command, device.device_id, *arguments)
        done = runtime.run_helper(nvml_admin_spec(image_for(runtime), grant, *words), timeout_s=TIMEOUT_S)
        answer: dict[str, Any] = json.loads(done.output.splitlines()[-1])
    except RuntimeUnavailable:
        raise
    except RuntimeFault as fault:
        return {"error": str(fault)[:NOTE_LENGTH]}
    except (ValueError, IndexError):
        return {"error": f"The helper answered: {text_of(done) or 'nothing'}"}
    return answer


def nvml_admin_spec(image: str, grant: DeviceGrant, *words: str) -> HelperSpec:
    """Return the helper that runs `nvml_admin`; limits and partitions need every right on the machine."""
    return HelperSpec(
        name=f"berth-nvml-{uuid4().hex[:12]}",
        image=image,
        labels=one_off_labels(ROLE),
        command=("python3", "-I", f"{HELPER_FILES_AT}/{NVML_ADMIN}", *words),
        files={NVML_ADMIN: script(NVML_ADMIN).encode()},
        grant=grant,
        sees_processes=True,
        is_privileged=True,
    )


def text_of(done: ProcessResult) -> str:
    """Return the output as one short line."""
    return " ".join(done.output.decode(errors="replace").split())[:NOTE_LENGTH]


@cache
def script(name: str) -> str:
    return (Path(__file__).parent / name).read_text()
