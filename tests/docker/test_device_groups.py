"""Groups of devices that the vendor's tool makes, by a stand-in that runs in helper containers of a real engine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agents.accelerators.description import FILES, VendorDescription, parse_description
from agents.accelerators.grant import DeviceNode
from agents.accelerators.report import CommandOutput, MachineReport, command_key
from agents.accelerators.report_parser import read_devices
from agents.machines.grants import DevicePart, grant_devices
from agents.machines.probing import Discovery
from agents.models import Agent, AgentDevice
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import HelperSpec, MountSpec, ProcessResult
from agents.runtime.registry import adopt_runtime
from agents.sharing import device_groups
from agents.sharing.device_groups import ensure_group, keep_indices, remove_group, remove_unused_groups
from tests import engines
from tests.factories_sessions import make_place

pytestmark = [pytest.mark.docker, pytest.mark.django_db]
# NPUs by index, with the number of their group; those of a new group get the last indices.
TOOL = """#!/bin/sh
cd /state; [ -s npus ] || printf 'a 0\\nb 0\\nc 0\\n' >npus
echo "$*" >>asked
number=0
case "$1" in
-j)
    while read -r id group; do
        printf '{"name": "NPU", "uuid": "%s", "device": "rbln%s", "group_id": "%s"}\\n' $id $number $group
        number=$((number + 1))
    done <npus ;;
group)
    [ "$2" = -d ] && { sed -i "s/ $3\\$/ 0/" npus; exit; }
    : >own; : >rest
    while read -r id group; do
        case ",$5," in *,$number,*) echo "$id $3" >>own ;; *) echo "$id $group" >>rest ;; esac
        number=$((number + 1))
    done <npus
    cat rest own >npus ;;
esac
"""


class Machine(DockerRuntime):
    """Machine whose helpers keep the state of the tool in a volume."""

    def __init__(self, tool: str) -> None:
        super().__init__(engines.ADDRESS)
        self.tool, self.volume = tool, f"berth-test-{uuid4().hex[:12]}"
        self.ensure_volume(self.volume, engines.LABELS)

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        # The engine of the tests may itself run in a container, which has not every right to give.
        state = MountSpec("volume", "/state", self.volume)
        return super().run_helper(
            replace(spec, is_privileged=False, mounts=(*spec.mounts, state)), timeout_s=timeout_s
        )

    def ask(self, *words: str) -> list[str]:
        """Run a program beside the tool's state and return its lines."""
        spec = HelperSpec(
            name=f"berth-test-{uuid4().hex[:12]}",
            image=engines.TINY_IMAGE,
            labels=engines.LABELS,
            command=words,
            grant=device_groups.grant_for(device_groups.device_probe(self.vendor), self.info(), ()),
        )
        return self.run_helper(spec).output.decode().splitlines()

    @property
    def vendor(self) -> VendorDescription:
        text = (FILES / "rebellions.yaml").read_text()
        text = text.replace("/usr/bin/rbln-smi, /usr/local/bin/rbln-smi", self.tool)
        return parse_description(text.replace("[rbln-smi", f"[{self.tool}"), "rebellions.yaml")

    def groups(self) -> list[str]:
        return self.ask("cat", "/state/npus")

    def changes(self) -> list[str]:
        return [line for line in self.ask("cat", "/state/asked") if line != "-j"]

    def discovery(self, *_: object) -> Discovery:
        rows = ",".join(self.ask(self.tool, "-j"))
        files = {"/sys/bus/pci/devices/0000:51:00.0/vendor": "0x1eff"}
        commands = {
            command_key([self.tool, "-j"]): CommandOutput(exit_code=0, stdout=f'{{"devices": [{rows}]}}')
        }
        report = MachineReport(files=files, paths=("/dev/rbln0",), commands=commands)
        return Discovery(devices=read_devices(self.vendor, report).devices or ())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Machine]:
    settings.BERTH_INSTALLATION = engines.INSTALLATION
    engines.make_tiny_image()
    (tmp_path / "rbln-smi").write_text(TOOL)
    (tmp_path / "rbln-smi").chmod(0o755)
    machine = Machine(str(tmp_path / "rbln-smi"))
    adopt_runtime("unix:///groups.sock", machine)
    monkeypatch.setattr(device_groups, "discover", machine.discovery)
    monkeypatch.setattr(device_groups, "vendor_named", lambda name: machine.vendor)
    monkeypatch.setattr(device_groups, "image_for", lambda runtime: engines.TINY_IMAGE)
    yield machine
    machine.close()
    engines.remove_everything()


@pytest.fixture
def agent(machine: Machine) -> Agent:
    agent = make_place().agent
    Agent.objects.filter(pk=agent.pk).update(address="unix:///groups.sock")
    agent.refresh_from_db()
    device_groups._read_again(agent)
    return agent


def npus(agent: Agent, *names: str) -> list[AgentDevice]:
    return list(agent.devices.filter(device_id__in=[f"rebellions:{name}" for name in names]))


def nodes(agent: Agent, *names: str) -> set[DeviceNode]:
    return {*grant_devices(agent, [DevicePart(row, 1000) for row in npus(agent, *names)]).nodes}


def test_two_npus_of_a_session_form_a_group_until_it_ends(machine: Machine, agent: Agent) -> None:
    assert not ensure_group(agent, "alone", npus(agent, "a"))
    for _ in range(2):  # as in a repeated launch
        assert ensure_group(agent, "pair", npus(agent, "a", "b"))
    assert (machine.groups(), machine.changes()) == (["c 0", "a 1", "b 1"], ["group -c 1 -a 0,1"])
    pairs = {("/dev/rbln1", "/dev/rbln0"), ("/dev/rbln2", "/dev/rbln1"), ("/dev/rsd1", "/dev/rsd0")}
    assert nodes(agent, "a", "b") == {DeviceNode(*pair) for pair in pairs}
    assert DeviceNode("/dev/rbln0", "/dev/rbln0") in nodes(agent, "c")  # its index was read again
    agent.devices.filter(device_id="rebellions:c").update(index=9)
    with keep_indices(agent, npus(agent, "c")) as may_have_changed:
        assert may_have_changed  # and is read again before a container starts with it
        assert DeviceNode("/dev/rbln0", "/dev/rbln0") in nodes(agent, "c")

    for _ in range(2):
        remove_group(agent, "pair")
    assert (machine.groups(), machine.changes()[1:]) == (["c 0", "a 0", "b 0"], ["group -d 1"])
    assert Agent.objects.get(pk=agent.pk).data["device_groups"] == {}


@pytest.mark.parametrize("dies", ["before", "after"])
def test_group_of_a_process_that_died_is_removed(
    machine: Machine, agent: Agent, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    run = device_groups.run_tool

    def killed(*arguments: Any) -> None:
        if dies == "after":
            run(*arguments)
        raise SystemExit

    monkeypatch.setattr(device_groups, "run_tool", killed)
    with pytest.raises(SystemExit):
        ensure_group(agent, "pair", npus(agent, "a", "b"))
    monkeypatch.setattr(device_groups, "run_tool", run)
    agent.refresh_from_db()
    remove_unused_groups(agent, {"pair"})
    assert [line[2:] for line in machine.groups()].count("1") == (2 if dies == "after" else 0)
    remove_unused_groups(agent, set())
    assert [line[2:] for line in machine.groups()] == ["0", "0", "0"]
    assert Agent.objects.get(pk=agent.pk).data["device_groups"] == {}
    assert ensure_group(agent, "other", npus(agent, "b", "c"))
    assert sorted(machine.groups()) == ["a 0", "b 1", "c 1"]
