"""Discovery of accelerators on machines that are reached over the network."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from django.test import Client

from accounts.models import User
from agents.accelerators.device_files import DeviceFileVendor
from agents.accelerators.probe import collect
from agents.accelerators.report import ProbeRequest
from agents.machines import discovery, helper_containers, probing
from agents.machines import service as machines_service
from agents.machines.withholding import device_history, forget_device, withhold_devices
from agents.models import Agent, AgentDevice, Withheld
from agents.resource_groups import service as resource_groups_service
from agents.runtime.port import (
    ContainerSpec,
    DeviceUnavailable,
    EngineInfo,
    HelperSpec,
    ProcessResult,
    RuntimeRefused,
)
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.vendors.selectors import known_vendors
from agents.vendors.service import create_vendor_file, delete_vendor_file
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict
from tests.conftest import People
from tests.nvml import FakeNvml

pytestmark = pytest.mark.django_db
BUILT = "berth/python:1"
IMAGES = [f"sha256:{BUILT}"]
PCI = "sys/bus/pci/devices"
NODE = {"kind": "c", "major": 240, "minor": 0, "gid": 44, "mode": 0o660}
_numbers = count(1)


class RemoteMachine(SimulatedRuntime):
    """With files below `root`, which a probe in a container sees, and NVIDIA's fake library."""

    def __init__(self, root: Path, nvml: FakeNvml) -> None:
        super().__init__(name=f"remote-{next(_numbers)}", images=[BUILT])
        self.root, self.nvml = root, nvml
        self.answer_helper = self.probe

    def probe(self, spec: HelperSpec) -> ProcessResult:
        report = collect.collect(json.loads(spec.command[-1]), str(self.root))
        report["nodes"] |= {name: NODE for name in report["paths"] if name.startswith("/dev/")}
        return ProcessResult(0, json.dumps(report).encode())

    def add_gpu_to_bus(self, slot: int = 1) -> None:
        folder = self.root / PCI / f"0000:0{slot}:00.0"
        folder.mkdir(parents=True)
        for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
            (folder / name).write_text(f"{text}\n")

    def change_engine(self, **facts: object) -> None:
        self._info = replace(self._info, **facts)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteMachine:
    (tmp_path / "machine/proc").mkdir(parents=True)
    nvml = FakeNvml(tmp_path)
    for name, value in nvml.environment(gpus=2).items():
        monkeypatch.setenv(name, value)
    machine = RemoteMachine(tmp_path / "machine", nvml)
    machine.add_gpu_to_bus()
    return machine


@pytest.fixture
def agent(machine: RemoteMachine) -> Agent:
    name = machine.name
    address = f"tcp://{name}:2376"
    adopt_runtime(address, machine)
    resource_groups_service.create_resource_group(actor=SYSTEM, name=name, is_default=False)
    return machines_service.register_agent(actor=SYSTEM, name=name, address=address)


def look_after(seconds: float = 0) -> None:
    with clock.frozen_at(clock.now() + timedelta(seconds=seconds)):
        machines_service.heartbeat_agents()
        discovery.discover_due(IMAGES)


def devices(agent: Agent) -> list[tuple[int, str]]:
    return list(agent.devices.values_list("index", "withheld"))


def capacity(agent: Agent) -> int:
    agent = Agent.objects.get(pk=agent.pk)
    return agent.capacity.get("cuda", 0)


def test_devices_of_a_machine_are_found_by_a_container_of_it(agent: Agent, machine: RemoteMachine) -> None:
    node = machine.root / "sys/devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("8-15\n")
    look_after()
    agent.refresh_from_db()
    assert devices(agent) == [(0, ""), (1, "")]
    assert agent.data["numa_cores"] == {"1": "8-15"}
    assert (capacity(agent), agent.device_model) == (2000, "NVIDIA H100 80GB HBM3")
    assert (agent.device_mem_bytes, agent.device_api_version) == (81559 * 2**20, 12090)
    first, nvidia = machine.helpers
    assert {mount.source: mount.is_readonly for mount in first.mounts} == {"/sys": True, "/dev": True}
    assert (first.grant.requests, [request.ids for request in nvidia.grant.requests]) == ((), [("all",)])
    assert (first.is_privileged, first.has_network, first.capabilities) == (False, False, ())


def test_machine_is_looked_at_again_in_minutes_and_at_once_if_its_engine_changed(
    agent: Agent, machine: RemoteMachine
) -> None:
    def times_looked(seconds: float) -> int:
        before = len(machine.helpers)
        look_after(seconds)
        return (len(machine.helpers) - before) // 2

    assert [times_looked(each) for each in (0, 10, 290, 310)] == [1, 0, 0, 1]
    machine.reboot()
    assert [times_looked(each) for each in (320, 330)] == [1, 0]
    machine.change_engine(cdi_devices=("nvidia.com/gpu=0", "nvidia.com/gpu=all"))
    assert times_looked(340) == 1
    assert machine.helpers[-1].grant.requests[0].ids == ("nvidia.com/gpu=all",)
    machines_service.refresh_agent(actor=SYSTEM, agent_id=agent.pk)
    assert times_looked(0) == 1


def test_vendor_that_an_administrator_describes_is_looked_for_at_once(
    agent: Agent, machine: RemoteMachine
) -> None:
    (machine.root / "dev").mkdir()
    for number in (0, 1, 10):
        (machine.root / f"dev/board{number}").touch()
    look_after()
    form = DeviceFileVendor(name="board", title="Boards", model="Board 9", device="/dev/board{n}")
    vendor = create_vendor_file(actor=SYSTEM, form=form)
    look_after(10)
    boards = agent.devices.filter(slot_name="board")
    assert [(device.index, device.model) for device in boards] == [(n, "Board 9") for n in (0, 1, 10)]
    agent.refresh_from_db()
    assert agent.data["device_nodes"]["/dev/board10"] == 44
    delete_vendor_file(actor=SYSTEM, vendor_id=vendor.pk)
    look_after(20)
    assert not boards.all().exists()


def test_report_that_no_row_can_hold_stops_no_look_at_others(
    agent: Agent, machine: RemoteMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = discovery.discover(agent, known_vendors(), IMAGES)
    unusable = replace(found, paths=("\0",))
    monkeypatch.setattr(discovery, "discover", lambda each, *_: found if each == agent else unusable)
    for _number in range(2):  # asked before and after it
        liar = SimulatedRuntime(name=f"liar-{next(_numbers)}")
        adopt_runtime(address := f"tcp://{liar.name}:2376", liar)
        machines_service.register_agent(actor=SYSTEM, name=liar.name, address=address)
    look_after()
    assert devices(agent) == [(0, ""), (1, "")]


def test_machine_without_accelerators_is_given_nothing(agent: Agent, machine: RemoteMachine) -> None:
    shutil.rmtree(machine.root / PCI)
    look_after()
    assert (devices(agent), len(machine.helpers)) == ([], 1)


def test_vendor_that_fails_keeps_its_devices_and_says_why(
    agent: Agent, machine: RemoteMachine, people: People, browser_of: Callable[[User], Client]
) -> None:
    look_after()

    def refuse(spec: HelperSpec) -> ProcessResult:
        if spec.grant.requests:
            raise DeviceUnavailable('could not select device driver "nvidia" with capabilities: [[gpu]]')
        return machine.probe(spec)

    machine.answer_helper = refuse
    look_after(310)
    assert (devices(agent), capacity(agent)) == ([(0, ""), (1, "")], 2000)
    for page in ("/agents/", f"/agents/{agent.pk}/"):
        assert "could not select device driver" in browser_of(people.superadmin).get(page).content.decode()
        assert "could not select" not in browser_of(people.member).get(page).content.decode()
    machine.answer_helper = lambda spec: ProcessResult(1, b"Traceback: no such thing")
    look_after(620)
    assert capacity(agent) == 2000
    machine.answer_helper = machine.probe
    look_after(690)  # sooner than usual
    agent.refresh_from_db()
    assert agent.data["discovery"]["problems"] == {}


def test_device_that_vanishes_is_missing_until_it_returns(
    agent: Agent, machine: RemoteMachine, people: People, browser_of: Callable[[User], Client]
) -> None:
    admin = browser_of(people.superadmin)
    look_after()
    row = agent.devices.get(index=1)
    machine.nvml.do("1 refuses 2")
    look_after(310)
    lost = agent.devices.get(index=1)
    assert (lost.pk, lost.is_present, lost.withheld, capacity(agent)) == (row.pk, False, "", 1000)
    look_after(620)
    assert agent.devices.get(index=1).missing_since == lost.missing_since
    assert "Devices are missing: cuda 1." in admin.get("/agents/").content.decode()
    assert "Missing since" in admin.get(f"/accelerators/{row.pk}/").content.decode()
    machine.nvml.do()
    look_after(930)
    back = agent.devices.get(index=1)
    assert (back.pk, back.is_usable, back.missing_since, capacity(agent)) == (row.pk, True, None, 2000)
    assert "missing" not in admin.get("/agents/").content.decode()


def test_missing_device_is_forgotten_but_not_its_history(
    agent: Agent, machine: RemoteMachine, people: People, browser_of: Callable[[User], Client]
) -> None:
    admin = browser_of(people.superadmin)
    look_after()
    row = agent.devices.get(index=1)
    withhold_devices(agent.pk, [row.pk], kind=Withheld.QUARANTINE, because="It is ill.")
    with pytest.raises(Conflict):
        forget_device(actor=SYSTEM, device_id=row.pk)  # it is there
    machine.nvml.do("1 refuses 2")
    look_after(310)
    AgentDevice.objects.filter(pk=row.pk).update(occupied=500)
    with pytest.raises(Conflict):
        forget_device(actor=SYSTEM, device_id=row.pk)  # a session holds it
    AgentDevice.objects.filter(pk=row.pk).update(occupied=0)
    assert admin.post(f"/accelerators/{row.pk}/forget/")["Location"] == "/accelerators/"
    assert devices(agent) == [(0, "")]
    machine.nvml.do()
    look_after(620)
    again = agent.devices.get(index=1)
    assert again.pk != row.pk
    told = [entry.action.removeprefix("agents.") for entry in device_history(SYSTEM, again.pk)]
    assert told == ["forget_device", "withhold_device"]


def test_device_that_vanishes_does_not_come_back_healed(agent: Agent, machine: RemoteMachine) -> None:
    look_after()
    ill = agent.devices.get(index=1)
    withhold_devices(agent.pk, [ill.pk], kind=Withheld.QUARANTINE, because="It is ill.")
    machine.nvml.do("1 refuses 2")
    look_after(310)
    machine.nvml.do()
    look_after(620)
    assert (devices(agent), capacity(agent)) == ([(0, ""), (1, "quarantine")], 1000)


def test_device_that_somebody_else_uses_is_withheld_until_it_is_free(
    agent: Agent, machine: RemoteMachine
) -> None:
    session = ContainerSpec(
        name="session", image=BUILT, labels=helper_containers.helper_labels("any"), cpu_milli=1, mem_bytes=1
    )
    machine.ensure_container(session)
    machine.start_container("session")
    machine.pids["session"] = {100}
    machine.nvml.do("0 pid 100", "1 pid 4711")
    look_after()
    assert devices(agent) == [(0, ""), (1, "")]  # it may be a program that ends
    look_after(10)
    assert devices(agent) == [(0, ""), (1, "busy")]
    assert capacity(agent) == 1000
    assert "4711" in agent.devices.get(index=1).withheld_because

    machine.nvml.do("0 pid 100")
    look_after(320)
    assert devices(agent) == [(0, ""), (1, "busy")]
    look_after(330)
    assert (devices(agent), capacity(agent)) == ([(0, ""), (1, "")], 2000)


def test_program_that_uses_a_device_for_a_moment_takes_it_from_nobody(
    agent: Agent, machine: RemoteMachine
) -> None:
    for second, pid in enumerate((1001, 1002, 1003)):
        machine.nvml.do(f"0 pid {pid}")
        look_after(second)
    assert devices(agent) == [(0, ""), (1, "")]


def test_machine_without_an_image_of_ours_says_so(agent: Agent) -> None:
    with clock.frozen_at(clock.now()):
        discovery.discover_due(["sha256:of another version"])
    agent.refresh_from_db()
    [problem] = agent.data["discovery"]["problems"].values()
    assert "bin/up" in problem["quote"]


def test_tool_that_is_not_on_the_machine_does_not_stop_the_look(agent: Agent, machine: RemoteMachine) -> None:
    def refuse(spec: HelperSpec) -> ProcessResult:
        if any(bind.source == "/usr/bin/absent" for bind in spec.grant.binds):
            raise RuntimeRefused("invalid mount config: bind source path does not exist: /usr/bin/absent")
        return machine.probe(spec)

    machine.answer_helper = refuse
    probe = probing.RemoteProbe(machine.info(), machine, IMAGES[0])
    probe(ProbeRequest(given_files=("/usr/bin/absent", "/usr/bin/there")))
    assert [bind.source for bind in machine.helpers[-1].grant.binds] == ["/usr/bin/there"]


def test_container_of_a_look_gets_the_devices_and_runtime_that_its_commands_need() -> None:
    info = EngineInfo(
        engine_id="1", version="29.3.1", api_version="1.53", architecture="x86_64", os="", cpu_milli=1,
        mem_bytes=1, runtimes=("habana", "runc"),
    )  # fmt: skip
    request = ProbeRequest(
        given_devices=("/dev/rbln[0-9]*", "/dev/rsd*"),
        given_drivers=("nvidia",),
        given_runtimes=("habana", "amd"),
    )
    grant = probing.grant_for(
        request, info, ["/dev/rbln0", "/dev/rblnx", "/dev/rsd0", "/dev/sda", "/dev/rbln/0"]
    )
    assert [node.path for node in grant.nodes] == ["/dev/rbln0", "/dev/rsd0"]
    assert (grant.runtime, grant.environment) == ("habana", {"HABANA_VISIBLE_DEVICES": "all"})
    assert [request.driver for request in grant.requests] == ["nvidia.runtime-hook"]
