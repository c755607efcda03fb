"""Machine with two GPUs of NVIDIA's fake library, on which helpers of Berth really run, as processes."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from agents.accelerators.probe import collect
from agents.machines import discovery
from agents.models import Agent
from agents.runtime.port import HelperSpec, ProcessResult
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.sharing import helper_containers, mig_partitions
from portal.ops.paths import CHECKOUT
from tests.nvml import FakeNvml

BUILT = "berth/python:1"
PROGRAM = CHECKOUT / "agents" / "sharing" / helper_containers.NVML_ADMIN
_numbers = count(1)


class SplitMachine(SimulatedRuntime):
    """With two GPUs of NVIDIA's fake library; helpers run as processes of this machine."""

    def __init__(self, root: Path, nvml: FakeNvml, *images: str) -> None:
        super().__init__(name=f"split-{next(_numbers)}", images=[BUILT, *images])
        self.root, self.nvml = root, nvml
        self.answer_helper = self.helped
        self._info = replace(self._info, version="28.2.0")
        self.dies_after: int | None = None

    def helped(self, spec: HelperSpec) -> ProcessResult:
        if "layout" not in spec.command:
            report = collect.collect(json.loads(spec.command[-1]), str(self.root))
            return ProcessResult(0, json.dumps(report).encode())
        assert spec.is_privileged
        assert spec.grant.environment["NVIDIA_MIG_CONFIG_DEVICES"] == "all"
        dies = {} if self.dies_after is None else {"FAKE_NVML_DIES_AFTER": str(self.dies_after)}
        command = [sys.executable, PROGRAM, *spec.command[3:]]
        done = subprocess.run(
            command, env=self.nvml.environment(gpus=2) | dies, capture_output=True, check=False
        )
        return ProcessResult(done.returncode, done.stdout)


def make_split_machine(folder: Path, patch: pytest.MonkeyPatch, *images: str) -> SplitMachine:
    """Return the machine, with these images, before Berth knows it."""
    root, nvml = folder / "machine", FakeNvml(folder)
    nvml.do("0 used 0")
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (root / "proc").mkdir()
    for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
        (device / name).write_text(f"{text}\n")
    for name, value in nvml.environment(gpus=2).items():
        patch.setenv(name, value)
    for module in (helper_containers, mig_partitions):
        patch.setattr(module, "built_image_ids", lambda: [f"sha256:{BUILT}"])
    machine = SplitMachine(root, nvml, *images)
    adopt_runtime(f"tcp://{machine.name}:2376", machine)
    return machine


def discover_devices() -> None:
    discovery.discover_due([f"sha256:{BUILT}"])


def capacity(agent: Agent) -> dict[str, int]:
    """Return the devices by slot that sessions can get."""
    slots = agent.slots.exclude(slot_name__in=["cpu", "mem"]).exclude(capacity=0)
    return {slot.slot_name: slot.capacity // 1000 for slot in slots}
