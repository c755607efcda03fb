"""Engine of a machine with NVIDIA GPUs, whose helpers and vendor's tools answer as a test says."""

import json
from collections.abc import Mapping, Sequence

from agents.models import Agent, AgentDevice, AgentSlot
from agents.runtime.port import ContainerSpec, ContainerState, HelperSpec, ProcessResult, RuntimeRefused
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.sharing.mechanisms import HOOK_CACHE, LIBRARY, LIBRARY_DIRECTORY

GIB = 2**30
HELPER_IMAGE = "berth/python:helper"
HOOK_IMAGE = "registry.example/hook:1"


class NvidiaEngine(SimulatedRuntime):
    """`limits`: the driver obeys, ignores or refuses limits of memory, or has none ("missing").
    `listed` is what nvidia-smi lists, `hook_limit` what the hook library wrote into its cache.
    """

    def __init__(self, name: str, image: str) -> None:
        super().__init__(name=name, images=(image, HELPER_IMAGE, HOOK_IMAGE))
        self.specs: list[ContainerSpec] = []
        self.limits = "obeys"
        self.listed: list[str] = []
        self.hook_limit = 0
        self.has_hook = True
        self.has_mps = True
        self.mps_answers: dict[str, str] = {}
        self.mps_commands: list[str] = []
        self.answer_helper = self._answer_helper

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        self.specs.append(spec)
        return super().ensure_container(spec)

    def ensure_helper(self, spec: HelperSpec) -> ContainerState:
        if not self.has_mps:
            raise RuntimeRefused("no such program: nvidia-cuda-mps-control")
        memory, percent = spec.command[-2:]
        self.mps_answers = {
            "get_default_device_pinned_mem_limit 0": f"{memory}M",
            "get_default_active_thread_percentage": percent,
        }
        state = super().ensure_helper(spec)
        self.specs = [each for each in self.specs if each.name != spec.name]
        return state

    def _answer_helper(self, spec: HelperSpec) -> ProcessResult:
        if spec.image == HOOK_IMAGE:
            return (
                ProcessResult(0, b"") if self.has_hook else ProcessResult(3, b"The image has no libvgpu.so.")
            )
        if spec.command[0] == "nvidia-smi":
            return ProcessResult(0, b"")
        command, _uuid, *words = spec.command[3:]
        answers: Mapping[str, object] = {
            "obeys": {"limit": int(words[-1])} if command == "limit" else {},
            "ignores": {"limit": None},
            "refuses": {"error": "Insufficient Permissions", "code": 4},
            "missing": {"error": "The driver is too old.", "code": 13},
        }
        return ProcessResult(0, json.dumps(answers[self.limits]).encode())

    def run_process(self, name: str, argv: Sequence[str], **more: object) -> ProcessResult:
        super().run_process(name, argv)
        line = " ".join(argv)
        if "nvidia-cuda-mps-control" in line:
            command = line.split("'")[1]
            self.mps_commands.append(command)
            return ProcessResult(0, self.mps_answers.get(command, "").encode())
        if line == "nvidia-smi -L":
            return ProcessResult(
                0, "\n".join(f"  MIG 1g.10gb (UUID: {uuid})" for uuid in self.listed).encode()
            )
        if "ld.so.preload" in line:
            return ProcessResult(0, f"{LIBRARY_DIRECTORY}/{LIBRARY}\n".encode())
        if HOOK_CACHE in line:
            return ProcessResult(0, bytes(64) + self.hook_limit.to_bytes(8, "little") + bytes(64))
        return ProcessResult(0, b"")


def give_gpus(agent: Agent, image: str, count: int = 1) -> NvidiaEngine:
    """Make the agent a machine with `count` GPUs of 80 GiB, and return its engine."""
    engine = NvidiaEngine(agent.name, image)
    adopt_runtime("unix:///nvidia.sock", engine)
    Agent.objects.filter(pk=agent.pk).update(address="unix:///nvidia.sock", engine_version="28.2.0")
    AgentSlot.objects.create(agent=agent, slot_name="cuda", capacity=count * 1000)
    AgentDevice.objects.bulk_create(
        AgentDevice(
            agent=agent, slot_name="cuda", device_id=f"GPU-{number}", index=number, model="H100", vendor="nvidia",
            mem_bytes=80 * GIB,
        )
        for number in range(count)
    )  # fmt: skip
    return engine
