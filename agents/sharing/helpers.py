"""Helper containers for sharing: their image, labels and devices, and the program for NVIDIA's library."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings

from agents.accelerators.grant import DeviceGrant, join_grants
from agents.machines.grants import DevicePart, grant_devices
from agents.models import Agent, AgentDevice
from agents.runtime.port import (
    ContainerRuntime,
    HelperSpec,
    ImageMissing,
    ProcessResult,
    RuntimeFault,
    RuntimeUnavailable,
)
from common.values.resources import MILLI
from images.selectors import built_image_ids

ROLE_LABEL = "io.berth.role"
ROLE = "sharing"
TIMEOUT_S = 60
NOTE_LENGTH = 300


def helper_labels(role: str = ROLE) -> dict[str, str]:
    return {"io.berth.installation": settings.BERTH_INSTALLATION, ROLE_LABEL: role}


def helper_image(runtime: ContainerRuntime) -> str:
    """Return the id of an image on the machine that may run as a helper. One query. Raises ImageMissing."""
    for image_id in built_image_ids():
        if runtime.inspect_image(image_id) is not None:
            return image_id
    raise ImageMissing("The session image that bin/up built is not on the machine.")


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
        done = runtime.run_helper(nvml_admin_spec(helper_image(runtime), grant, *words), timeout_s=TIMEOUT_S)
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
        labels=helper_labels(),
        command=("python3", "-I", "-c", script("nvml_admin.py"), *words),
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
