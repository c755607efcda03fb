"""Look at a machine's accelerators from a container on a real engine."""

import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.accelerators.description import shipped_vendors, vendor_named
from agents.accelerators.grant import BoundPath, DeviceGrant
from agents.accelerators.probe import MOUNTED_AT, read_report, run_local_probe
from agents.accelerators.report import MachineReport, ProbeRequest
from agents.accelerators.report_parser import device_probe, presence_probe, read_devices, read_uses
from agents.machines import helper_containers, probing
from agents.models import Agent
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import HelperSpec, MountSpec, ProcessResult, RuntimeRefused
from agents.runtime.registry import adopt_runtime
from portal.ops.paths import CHECKOUT
from tests import engines
from tests.doubles.machine_reports import NAMES, machine_fixture
from tests.nvml import FakeNvml
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
VENDOR = vendor_named("nvidia")
CALLER = """
import sys
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import HelperSpec
DockerRuntime(sys.argv[1]).run_helper(HelperSpec(
    name=sys.argv[2], image=sys.argv[3], command=("sleep", "1000"),
    labels={"io.berth.installation": sys.argv[4], "io.berth.role": "probe", "io.berth.once": "true"},
), timeout_s=600)
"""


@pytest.fixture
def runtime(settings: Any) -> Iterator[DockerRuntime]:
    settings.BERTH_INSTALLATION = engines.INSTALLATION
    runtime = DockerRuntime(engines.ADDRESS)
    yield runtime
    runtime.close()
    engines.remove_everything()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with one GPU on its bus, two device nodes and something that is none."""
    root = tmp_path / "machine"
    folder = root / "sys/bus/pci/devices/0000:18:00.0"
    folder.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
        (folder / name).write_text(f"{text}\n")
    (root / "dev").mkdir()
    for minor in (0, 1):
        node = root / f"dev/nvidia{minor}"
        os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(195, minor))
        os.chown(node, 0, 4400 + minor)
    (root / "dev/nvidia2").write_text("a file")
    return root


def run_with_files_there(runtime: DockerRuntime, spec: HelperSpec) -> ProcessResult:
    while True:
        try:
            return runtime.run_helper(spec)
        except RuntimeRefused as refusal:
            spec = probing.without_missing_file(spec, refusal)


def test_container_finds_the_devices_that_the_machine_itself_finds(
    runtime: DockerRuntime, image: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert VENDOR
    nvml = FakeNvml(tmp_path)
    nvml.do("0 link 1", "1 link 1", "1 instances 3", "0 pid 4711")
    request = (
        presence_probe([VENDOR])
        + device_probe(VENDOR)
        + ProbeRequest(nodes=("/dev/nvidia*",), files=("/proc/driver/*",))
    )
    environment = nvml.environment(gpus=2)
    folders = tuple(BoundPath(str(path)) for path in (nvml.library, tmp_path))
    grant = DeviceGrant(binds=folders, environment={**environment, "FAKE_NVML_OPENED": "/dev/null"})
    done = run_with_files_there(runtime, probing.probe_spec(request, image, grant, root=str(root)))
    there = read_report(done.exit_code, done.output)

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    here = run_local_probe(request, str(root))
    assert there == MachineReport.from_json(here.to_json() | {"files": there.files})
    assert here.files.items() <= there.files.items()
    assert [(node.major, node.minor, node.gid) for node in there.nodes.values()] == [
        (195, 0, 4400),
        (195, 1, 4401),
    ]
    found, same = read_devices(VENDOR, there), read_devices(VENDOR, here)
    assert found == same
    assert [(device.index, device.profile) for device in found.devices or ()] == [
        (0, ""), (1, ""), (1, "1g.10gb"), (1, "1g.10gb"), (1, "1g.10gb"),
    ]  # fmt: skip
    assert runtime.list_containers(helper_containers.helper_labels("probe")) == []


def test_engine_of_this_machine_tells_over_its_api_what_the_machine_tells(
    runtime: DockerRuntime, image: str
) -> None:
    addresses = ("tcp://this-machine:2376", "unix:///this-machine.sock")
    for address in addresses:
        adopt_runtime(address, runtime)
    there, here = (
        probing.discover(Agent(name="this", address=address), shipped_vendors(), [image])
        for address in addresses
    )
    assert there.disk["size_bytes"] == here.disk["size_bytes"]
    assert replace(there, disk={}) == replace(here, disk={}), "free space changes while they look"


def build_machine(root: Path, fixture: MachineReport) -> None:
    """Make the files, links and device nodes of a recorded machine below `root`."""
    for directory in ("sys", "dev", "proc"):
        (root / directory).mkdir(parents=True)
    for path, target in fixture.links.items():
        link = root / path[1:]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        (link.parent / target).mkdir(parents=True, exist_ok=True)
    for path, text in fixture.files.items():
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path in fixture.paths:
        if not (root / path[1:]).exists():
            (root / path[1:]).mkdir(parents=True)
    for path, node in fixture.nodes.items():
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(file, stat.S_IFCHR | node.mode, os.makedev(node.major, node.minor))
        os.chown(file, 0, node.gid)


def build_tools(folder: Path, fixture: MachineReport) -> list[BoundPath]:
    """Make tools that print the recorded answers."""
    cases: dict[str, list[str]] = {}
    for key, output in fixture.commands.items():
        name, *words = shlex.split(key)
        cases.setdefault(name, []).append(
            f"{shlex.quote(' '.join(words))}) printf %s {shlex.quote(output.stdout)}; exit {output.exit_code};;"
        )
    folder.mkdir()
    for name, lines in cases.items():
        script = "\n".join(["#!/bin/sh", 'case "$*" in', *lines, "esac", "exit 9"])
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return [BoundPath(str(folder / name), f"/usr/local/bin/{name}") for name in cases]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "nvidia"])
def test_each_vendors_recorded_machine_is_found_by_a_container(
    runtime: DockerRuntime, image: str, tmp_path: Path, name: str
) -> None:
    fixture = machine_fixture(name)
    vendor = vendor_named(fixture.vendor)
    assert vendor
    root = tmp_path / "machine"
    build_machine(root, fixture.report)
    grant = DeviceGrant(binds=tuple(build_tools(tmp_path / "tools", fixture.report)))
    spec = probing.probe_spec(presence_probe([vendor]) + device_probe(vendor), image, grant, root=str(root))
    proc = MountSpec("bind", f"{MOUNTED_AT}/proc", str(root / "proc"), is_readonly=True)
    done = run_with_files_there(runtime, replace(spec, mounts=(*spec.mounts, proc)))
    report = replace(
        read_report(done.exit_code, done.output),
        runtimes=fixture.report.runtimes,
        cdi_devices=fixture.report.cdi_devices,
    )
    reading = read_devices(vendor, report)
    assert reading.devices == fixture.devices
    assert not reading.problem
    assert read_uses(vendor, reading.devices, report) == fixture.uses


def test_container_can_open_no_device_that_it_sees(runtime: DockerRuntime, image: str, root: Path) -> None:
    os.mknod(
        root / "dev/memory", stat.S_IFCHR | 0o666, os.makedev(1, 1)
    )  # of those that no container may open
    request = ProbeRequest(
        nodes=("/dev/memory",),
        commands=(("head", "-c", "1", "/machine/dev/memory"), ("touch", "/machine/dev/x")),
    )
    done = runtime.run_helper(probing.probe_spec(request, image, DeviceGrant(), root=str(root)))
    report = read_report(done.exit_code, done.output)
    assert report.nodes["/dev/memory"].kind == "c"
    assert [output.exit_code for output in report.commands.values()] == [1, 1]


def test_container_whose_caller_was_killed_is_removed(
    runtime: DockerRuntime, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"berth-probe-{engines.INSTALLATION}"
    command = [sys.executable, "-c", CALLER, engines.ADDRESS, name, image, engines.INSTALLATION]
    caller = subprocess.Popen(command, cwd=CHECKOUT)
    wait_until(lambda: (state := runtime.inspect_container(name)) and state.started_at)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    now = 1000.0
    monkeypatch.setattr(helper_containers.time, "monotonic", lambda: now)
    helper_containers.reap_helpers(runtime)
    assert runtime.inspect_container(name) is not None
    now += helper_containers.ABANDONED_AFTER_S
    helper_containers.reap_helpers(runtime)
    assert runtime.inspect_container(name) is None
