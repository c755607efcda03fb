"""Changes of NVIDIA GPUs for which root is needed: memory limits of containers, and MIG layouts.

A stand-alone program for a helper container; it needs Python's library and the driver's only:

    nvml_admin.py limit UUID CONTAINER_ID BYTES   limit a container's memory, and read it back
    nvml_admin.py read UUID CONTAINER_ID          read that limit
    nvml_admin.py layout UUID LAYOUT              split a GPU; LAYOUT is JSON: {"1g.10gb": 4}

Prints JSON: {"limit": BYTES or null}, {"layout": {…}}, or {"error": "…", "code": …}. A call after an
interrupted one makes the layout from what is there. A count of -1 means as many as fit.
"""

import ctypes
import json
import re
import sys
from ctypes import Structure, byref, c_char, c_char_p, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND = 0, 2, 3, 6, 13
NO_LIMIT = 2**64 - 1
GPU_PROFILES, COMPUTE_PROFILES, MOST_INSTANCES = 0x12, 9, 32
ALL_THAT_FIT = -1
NAME_BYTES = 96


class GpuProfile(Structure):
    _fields_ = [
        ("version", c_uint), ("id", c_uint), ("is_p2p_supported", c_uint), ("slices", c_uint), ("instances", c_uint),
        ("multiprocessors", c_uint), ("copy_engines", c_uint), ("decoders", c_uint), ("encoders", c_uint),
        ("jpeg", c_uint), ("ofa", c_uint), ("mem_mib", c_ulonglong), ("name", c_char * NAME_BYTES),
    ]  # fmt: skip
    VERSION = 0x02000098


class ComputeProfile(Structure):
    _fields_ = [
        ("version", c_uint), ("id", c_uint), ("slices", c_uint), ("instances", c_uint), ("multiprocessors", c_uint),
        ("copy_engines", c_uint), ("decoders", c_uint), ("encoders", c_uint), ("jpeg", c_uint), ("ofa", c_uint),
        ("name", c_char * NAME_BYTES),
    ]  # fmt: skip
    VERSION = 0x02000088


class SetLimits(Structure):
    _fields_ = [("cgroup", c_char_p), ("soft", c_ulonglong), ("hard", c_ulonglong)]


class GetLimits(Structure):
    _fields_ = [*SetLimits._fields_, ("used", c_ulonglong)]


class NvmlFault(Exception):
    """The library refused a call; `code` is its error."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Nvml:
    """The driver's library. Calls raise NvmlFault."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NvmlFault(f"The machine gave the helper no NVIDIA library: {error}", NOT_FOUND) from error
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name, None)
        if function is None:
            raise NvmlFault(f"The driver is too old: it has no {name}.", FUNCTION_NOT_FOUND)
        code = function(*arguments)
        if code == FUNCTION_NOT_FOUND:
            raise NvmlFault(f"The driver is too old: it has no {name}.", code)
        if code != SUCCESS:
            self._library.nvmlErrorString.restype = c_char_p
            raise NvmlFault(f"{name}: {self._library.nvmlErrorString(code).decode()}", code)

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """Return the handle that the call writes to its last argument."""
        found = c_void_p()
        self.call(name, *arguments, byref(found))
        return found

    def handles(self, name: str, owner: c_void_p, profile: int) -> list[c_void_p]:
        """Return the instances of a profile."""
        found, count = (c_void_p * MOST_INSTANCES)(), c_uint(MOST_INSTANCES)
        try:
            self.call(name, owner, c_uint(profile), found, byref(count))
        except NvmlFault as fault:
            if fault.code in (NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT):
                return []
            raise
        return [c_void_p(each) for each in found[: count.value]]


def cgroup_of(container_id: str, proc: Path = Path("/proc")) -> str:
    """Return the directory of the container's control group, from one of its processes."""
    for file in sorted(proc.glob("[0-9]*/cgroup")):
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue  # the process has ended
        for line in lines:
            hierarchy, _, path = line.split(":", 2)
            found = re.match(rf"(/.*{re.escape(container_id)}[^/]*)", path)
            if hierarchy == "0" and found:
                return f"/sys/fs/cgroup{found[1]}"
    raise NvmlFault(f"No process runs in container {container_id[:12]}.", NOT_FOUND)


def read_limit(nvml: Nvml, device: c_void_p, cgroup: str) -> int | None:
    limits = GetLimits(cgroup.encode())
    nvml.call("nvmlDeviceGetMemoryLimits_v1", device, byref(limits))
    return None if limits.hard == NO_LIMIT else int(limits.hard)


def set_limit(nvml: Nvml, device: c_void_p, cgroup: str, limit_bytes: int) -> int | None:
    limits = SetLimits(cgroup.encode(), limit_bytes, limit_bytes)
    nvml.call("nvmlDeviceSetMemoryLimits_v1", device, byref(limits))
    return read_limit(nvml, device, cgroup)


class Partitions:
    """MIG instances of one GPU."""

    def __init__(self, nvml: Nvml, device: c_void_p) -> None:
        self._nvml, self._device = nvml, device

    def apply(self, layout: dict[str, int]) -> dict[str, int]:
        """Make exactly these instances; return what is there then. Without any the mode is off."""
        if not layout:
            if self._has_mode():
                self._destroy_all()
                self._set_mode(False)
            return {}
        self._set_mode(True)
        profiles = self._profiles()
        unknown = sorted(layout.keys() - profiles.keys())
        if unknown:
            names = ", ".join(sorted(profiles))
            raise NvmlFault(f"The GPU has no profile {unknown[0]}, only {names}.", NOT_FOUND)
        if self.layout(profiles) != layout:
            self._destroy_all()
            for name in sorted(
                layout, key=lambda name: -profiles[name].slices
            ):  # large ones need their places
                self._create(profiles[name], layout[name])
        return self.layout(profiles)

    def layout(self, profiles: dict[str, GpuProfile]) -> dict[str, int]:
        counts = {name: len(self._instances(profile)) for name, profile in profiles.items()}
        return {name: count for name, count in counts.items() if count}

    def _has_mode(self) -> bool:
        current, pending = c_uint(), c_uint()
        try:
            self._nvml.call("nvmlDeviceGetMigMode", self._device, byref(current), byref(pending))
        except NvmlFault as fault:
            if fault.code == NOT_SUPPORTED:
                raise NvmlFault("The GPU cannot be split: it has no MIG mode.", NOT_SUPPORTED) from fault
            raise
        return bool(current.value)

    def _set_mode(self, is_on: bool) -> None:
        if self._has_mode() == is_on:
            return
        self._nvml.call("nvmlDeviceSetMigMode", self._device, c_uint(is_on), byref(c_uint()))
        if self._has_mode() != is_on:
            raise NvmlFault("The MIG mode changes only when an administrator resets the GPU.", NOT_SUPPORTED)

    def _profiles(self) -> dict[str, GpuProfile]:
        found = {}
        for number in range(GPU_PROFILES):
            profile = GpuProfile(version=GpuProfile.VERSION)
            try:
                self._nvml.call(
                    "nvmlDeviceGetGpuInstanceProfileInfoV", self._device, c_uint(number), byref(profile)
                )
            except NvmlFault as fault:
                if fault.code in (NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT):
                    continue
                raise
            found[profile.name.decode().removeprefix("MIG ")] = profile
        return found

    def _instances(self, profile: GpuProfile) -> list[c_void_p]:
        return self._nvml.handles("nvmlDeviceGetGpuInstances", self._device, profile.id)

    def _destroy_all(self) -> None:
        for profile in self._profiles().values():
            for instance in self._instances(profile):
                for compute in self._compute_profiles(instance):
                    for each in self._nvml.handles(
                        "nvmlGpuInstanceGetComputeInstances", instance, compute.id
                    ):
                        self._nvml.call("nvmlComputeInstanceDestroy", each)
                self._nvml.call("nvmlGpuInstanceDestroy", instance)

    def _create(self, profile: GpuProfile, count: int) -> None:
        if count == ALL_THAT_FIT:
            room = c_uint()
            self._nvml.call(
                "nvmlDeviceGetGpuInstanceRemainingCapacity", self._device, c_uint(profile.id), byref(room)
            )
            count = room.value
        for _ in range(count):
            instance = self._nvml.handle("nvmlDeviceCreateGpuInstance", self._device, c_uint(profile.id))
            whole = next(each for each in self._compute_profiles(instance) if each.slices == profile.slices)
            self._nvml.handle("nvmlGpuInstanceCreateComputeInstance", instance, c_uint(whole.id))

    def _compute_profiles(self, instance: c_void_p) -> list[ComputeProfile]:
        found = []
        for number in range(COMPUTE_PROFILES):
            profile = ComputeProfile(version=ComputeProfile.VERSION)
            try:
                self._nvml.call(
                    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
                    instance,
                    c_uint(number),
                    c_uint(0),
                    byref(profile),
                )
            except NvmlFault:
                continue  # the size is not for this instance
            found.append(profile)
        return found


def run(command: str, uuid: str, *rest: str) -> dict[str, Any]:
    nvml = Nvml()
    device = nvml.handle("nvmlDeviceGetHandleByUUID", uuid.encode())
    if command == "layout":
        return {"layout": Partitions(nvml, device).apply(json.loads(rest[0]))}
    cgroup = cgroup_of(rest[0])
    if command == "read":
        return {"limit": read_limit(nvml, device, cgroup)}
    return {"limit": set_limit(nvml, device, cgroup, int(rest[1]))}


def main(arguments: list[str]) -> int:
    try:
        answer = run(*arguments)
    except NvmlFault as fault:
        answer = {"error": str(fault), "code": fault.code}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
