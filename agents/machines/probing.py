"""Looks at the accelerators of one machine. Calls its engine, never the database.

The portal's own machine is looked at by a process, others by helper containers, so that nothing is
installed there. A first look finds the vendors that are there; then each is looked at alone, so that
a tool or driver that fails costs only its own vendor.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from django.conf import settings

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.description import Health, VendorDescription
from agents.accelerators.grant import BoundPath, DeviceGrant, DeviceNode, DriverRequest
from agents.accelerators.probe import (
    ANSWERS_WITHIN_S,
    MAX_REPORT_BYTES,
    MOUNTED_AT,
    ProbeFailed,
    probe_command,
    program_files,
    read_report,
    run_local_probe,
)
from agents.accelerators.report import MachineReport, ProbeRequest
from agents.accelerators.report_parser import (
    device_probe,
    is_present,
    presence_probe,
    read_devices,
    read_health,
    read_measures,
)
from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.models import Agent
from agents.runtime.port import (
    HELPER_FILES_AT,
    ContainerGone,
    ContainerRuntime,
    ContainerStatus,
    EngineInfo,
    HelperSpec,
    MountSpec,
    RuntimeFault,
    RuntimeRefused,
    RuntimeUnavailable,
)
from agents.selectors import runtime_of
from common.i18n import gettext_noop
from common.values.stored_message import StoredMessage, one_line

LOCAL = "unix://"
PROBE_MEM_BYTES = 256 * 2**20
CDI_ALL_NVIDIA = "nvidia.com/gpu=all"
NAMES_ITS_DRIVERS = (29, 2)  # version of the first engine with "nvidia.runtime-hook"
NUMA_CORES = "/sys/devices/system/node/node*/cpulist"
PLACES_OF_CORES = "/sys/devices/system/cpu/cpu[0-9]*/topology/"
SOCKET, CORE = "physical_package_id", "core_id"
MACHINE = ""
LOOK_FAILED = gettext_noop("Its accelerators could not be looked for.")
VENDOR_FAILED = gettext_noop("Devices of {vendor} could not be looked for.")
_NO_SOURCE = re.compile(r"bind source path does not exist: (\S+)")
_GLOB = re.compile(r"\*|\?|\[[^\]]+\]")
_HERE_ONLY = ("/sys/", "/proc/")
_SEEN = ("/sys/", "/dev/", "/proc/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """Result of probing a machine.

    `devices` are those of all vendors but the `unknown` ones, whose tools failed; `problems` says
    why, by vendor; MACHINE: for the machine as a whole. `users`: {device id: ids of processes that compute
    on it and belong to no container of this installation}. `nodes`: {path of a device node: id of its
    group}; `paths` are other existing files that grants name. `numa_cores`: {NUMA node: its cores, like
    "0-15"}. `topology`: numbers of sockets, cores, threads; `disk`: size and free bytes where the engine has
    its images. `health`: values of the vendors' health sources by device id; `rules` judge them, by vendor,
    without the `unknown` ones.
    """

    devices: tuple[AcceleratorDevice, ...] = ()
    unknown: Collection[str] = ()
    problems: Mapping[str, StoredMessage] = field(default_factory=dict)
    users: Mapping[str, Collection[int]] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    numa_cores: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, int] = field(default_factory=dict)
    disk: Mapping[str, int] = field(default_factory=dict)
    health: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Health] = field(default_factory=dict)


def discover(agent: Agent, vendors: Sequence[VendorDescription], image_ids: Sequence[str]) -> Discovery:
    """Look at the machine now. Calls its engine, never the database. Raises RuntimeUnavailable."""
    runtime = runtime_of(agent)
    info = runtime.info()
    try:
        probe = _probe_for(agent, runtime, info, image_ids)
        first = probe(presence_probe(vendors) + machine_probe() + ProbeRequest(nodes=_nodes_to_give(vendors)))
    except (ProbeFailed, RuntimeFault) as fault:
        _reraise_unavailable(fault)
        everyone = [vendor.name for vendor in vendors]
        problem = StoredMessage(LOOK_FAILED, quote=one_line(fault))
        return Discovery(unknown=everyone, problems={MACHINE: problem})
    found, used = Discovery(), dict[str, set[int]]()
    for vendor in vendors:
        if is_present(vendor, first):
            found = _with_vendor(found, vendor, probe, first, used)
    users = _foreign(runtime, used) if used else {}
    return replace(
        found, users=users, numa_cores=_numa_cores(first), topology=_topology(first), disk=_disk(first)
    )


def machine_probe() -> ProbeRequest:
    """Return the request for what a machine is besides its accelerators; each probe adds its disks."""
    return ProbeRequest(files=(NUMA_CORES, PLACES_OF_CORES + SOCKET, PLACES_OF_CORES + CORE))


def _topology(report: MachineReport) -> dict[str, int]:
    """Return the numbers of sockets, cores and threads; {} if the kernel does not tell."""
    sockets = {
        path.removesuffix(SOCKET): text for path, text in report.files.items() if path.endswith(SOCKET)
    }
    cores = {(socket.strip(), report.files.get(path + CORE, "").strip()) for path, socket in sockets.items()}
    if not cores:
        return {}
    counts = len({socket for socket, _core in cores}), len(cores), len(sockets)
    return dict(zip(("sockets", "cores", "threads"), counts, strict=True))


def _disk(report: MachineReport) -> dict[str, int]:
    """Return size and free bytes of the engine's disk; {} if unknown."""
    disk = next(iter(report.disks.values()), None)
    return {"size_bytes": disk.size_bytes, "free_bytes": disk.free_bytes} if disk else {}


def _numa_cores(report: MachineReport) -> dict[str, str]:
    named = {path: re.search(r"/node(\d+)/", path) for path in report.files}
    return {found[1]: report.files[path].strip() for path, found in named.items() if found}


def _with_vendor(
    found: Discovery,
    vendor: VendorDescription,
    probe: "LocalProbe",
    first: MachineReport,
    used: dict[str, set[int]],
) -> Discovery:
    """Return `found` with one vendor's devices; add the processes on them to `used`."""
    try:
        report = probe(presence_probe([vendor]) + device_probe(vendor), first.nodes)
    except (ProbeFailed, RuntimeFault) as fault:
        _reraise_unavailable(fault)
        problem = StoredMessage(VENDOR_FAILED, {"vendor": vendor.title}, quote=one_line(fault))
        return _unknown(found, vendor, problem)
    reading = read_devices(vendor, report)
    for device_id, measures in read_measures(vendor, reading.devices or (), report).items():
        used[device_id] = {each["pid"] for each in measures.get("processes") or () if each.get("pid")}
    if reading.devices is None:
        return _unknown(found, vendor, reading.problem)
    paths = [path for path in report.paths if not path.startswith(_HERE_ONLY)]
    return replace(
        found,
        devices=found.devices + reading.devices,
        problems={**found.problems, **({vendor.name: reading.problem} if reading.problem else {})},
        nodes={**found.nodes, **{path: node.gid for path, node in report.nodes.items()}},
        paths=tuple(dict.fromkeys((*found.paths, *paths))),
        health={**found.health, **read_health(vendor, reading.devices, report)},
        rules={**found.rules, vendor.name: vendor.health},
    )


def _unknown(found: Discovery, vendor: VendorDescription, problem: StoredMessage) -> Discovery:
    return replace(
        found,
        unknown=[*found.unknown, vendor.name],
        problems={**found.problems, vendor.name: problem},
    )


class LocalProbe:
    """Probe of one machine, with what its engine told; here for the machine of this process."""

    def __init__(self, info: EngineInfo) -> None:
        self.info = info

    def __call__(self, request: ProbeRequest, nodes: Iterable[str] = ()) -> MachineReport:
        """Return what is there; `nodes` are those of which a container may get some. Raises ProbeFailed
        and RuntimeFault.
        """
        return replace(
            self.report(request, nodes),
            runtimes=self.info.runtimes,
            cdi_devices=self.info.cdi_devices,
            engine_version=self.info.version,
        )

    def report(self, request: ProbeRequest, nodes: Iterable[str]) -> MachineReport:
        return run_local_probe(replace(request, disks=(self.info.root_dir,) if self.info.root_dir else ()))


class RemoteProbe(LocalProbe):
    """Probe of a remote machine, by a helper container."""

    def __init__(self, info: EngineInfo, runtime: ContainerRuntime, image_id: str) -> None:
        super().__init__(info)
        self._runtime, self._image_id = runtime, image_id

    def report(self, request: ProbeRequest, nodes: Iterable[str]) -> MachineReport:
        request = replace(request, disks=("/",))  # a container's root is on the engine's disk
        spec = probe_spec(request, self._image_id, grant_for(request, self.info, nodes))
        while True:
            try:
                done = self._runtime.run_helper(spec, timeout_s=ANSWERS_WITHIN_S)
            except RuntimeRefused as refusal:
                spec = without_missing_file(spec, refusal)
            else:
                return read_report(done.exit_code, done.output)


def without_missing_file(spec: HelperSpec, refusal: RuntimeRefused) -> HelperSpec:
    """Return the spec without the file of the machine that an engine misses. Raises `refusal` if that
    was not the reason.
    """
    missing = _NO_SOURCE.search(str(refusal))
    binds = tuple(bind for bind in spec.grant.binds if not missing or bind.source != missing[1])
    if binds == spec.grant.binds:
        raise refusal
    return replace(spec, grant=replace(spec.grant, binds=binds))


def _probe_for(
    agent: Agent, runtime: ContainerRuntime, info: EngineInfo, image_ids: Sequence[str]
) -> LocalProbe:
    if agent.address.startswith(LOCAL):
        return LocalProbe(info)
    image_id = helper_image(runtime, image_ids)
    if image_id is None:
        raise ProbeFailed(f"{NO_IMAGE}.")
    return RemoteProbe(info, runtime, image_id)


def probe_spec(request: ProbeRequest, image_id: str, grant: DeviceGrant, *, root: str = "/") -> HelperSpec:
    """Return the helper that looks at a machine whose files are in `root`."""
    others = (path for path in request.paths if not path.startswith(_SEEN) and not _GLOB.search(path))
    shown = tuple(BoundPath(f"{root.rstrip('/')}{path}", f"{MOUNTED_AT}{path}") for path in others)
    return HelperSpec(
        name=f"berth-probe-{uuid4().hex[:12]}",
        image=image_id,
        labels=one_off_labels("probe"),
        command=probe_command(request, python="python3", folder=HELPER_FILES_AT, root=MOUNTED_AT),
        files=program_files(),
        mounts=machine_mounts(root),
        grant=replace(grant, binds=grant.binds + shown),
        mem_bytes=PROBE_MEM_BYTES,
        log_bytes=2 * MAX_REPORT_BYTES,
    )


def machine_mounts(root: str = "/") -> tuple[MountSpec, ...]:
    """Return the mounts by which a helper sees the /sys and /dev in `root`."""
    return tuple(
        MountSpec("bind", f"{MOUNTED_AT}/{name}", f"{root.rstrip('/')}/{name}", is_readonly=True)
        for name in ("sys", "dev")
    )


def grant_for(request: ProbeRequest, info: EngineInfo, nodes: Iterable[str]) -> DeviceGrant:
    """Return what a container needs for the commands of this request, of what the machine has."""
    paths = [path for path in nodes if any(_is_match(path, glob) for glob in request.given_devices)]
    runtimes = [name for name in request.given_runtimes if name in info.runtimes]
    return DeviceGrant(
        nodes=tuple(DeviceNode(path) for path in paths),
        requests=tuple(_all_devices_of(driver, info) for driver in request.given_drivers),
        runtime=runtimes[0] if runtimes else "",
        environment={f"{name.upper()}_VISIBLE_DEVICES": "all" for name in runtimes[:1]},
        binds=tuple(BoundPath(path) for path in request.given_files if "*" not in path),
    )


def _all_devices_of(driver: str, info: EngineInfo) -> DriverRequest:
    if driver == "nvidia" and CDI_ALL_NVIDIA in info.cdi_devices:
        return DriverRequest("cdi", (CDI_ALL_NVIDIA,))
    if driver == "nvidia" and _version(info.version) >= NAMES_ITS_DRIVERS:
        driver = "nvidia.runtime-hook"
    return DriverRequest(driver, ("all",), ("gpu", "utility"))


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _is_match(path: str, glob: str) -> bool:
    """True if the glob names this path; a star stands for no slash."""
    parts = ["[^/]" + "*" * (part == "*") if part in "*?" else part for part in _GLOB.findall(glob)]
    texts = [re.escape(text) for text in _GLOB.split(glob)]
    pattern = "".join(text + part for text, part in zip(texts, [*parts, ""], strict=True))
    return re.fullmatch(pattern, path) is not None


def _nodes_to_give(vendors: Iterable[VendorDescription]) -> tuple[str, ...]:
    return tuple(glob for vendor in vendors for glob in device_probe(vendor).given_devices)


def _foreign(runtime: ContainerRuntime, used: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """Return the processes that belong to no container of this installation."""
    ours: set[int] = set()
    if any(used.values()):
        labels = {"io.berth.installation": settings.BERTH_INSTALLATION}
        for state in runtime.list_containers(labels):
            if state.status is ContainerStatus.RUNNING:
                try:
                    ours |= runtime.process_ids(state.name)
                except ContainerGone:
                    continue
    return {device_id: pids - ours for device_id, pids in used.items()}


def _reraise_unavailable(fault: Exception) -> None:
    if isinstance(fault, RuntimeUnavailable):
        raise fault
