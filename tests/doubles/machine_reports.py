"""Reports of made-up machines, one for each accelerator vendor, from `tests/fixtures/accelerators`.

A fixture has files by path (or by directory and name), links, nodes (paths) and outputs of commands,
and the devices and uses that they mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from agents.accelerators.base import AcceleratorDevice, DeviceProcess, DeviceUse
from agents.accelerators.description import vendor_named
from agents.accelerators.report import CommandOutput, DeviceNodeFacts, MachineReport, command_key

FIXTURES = Path(__file__).parents[1] / "fixtures" / "accelerators"
NAMES = tuple(sorted(path.stem for path in FIXTURES.glob("*.yaml")))


@dataclass(frozen=True, slots=True)
class MachineFixture:
    vendor: str
    report: MachineReport
    devices: tuple[AcceleratorDevice, ...]
    uses: tuple[DeviceUse, ...]


@cache
def machine_fixture(name: str) -> MachineFixture:
    data = yaml.safe_load((FIXTURES / f"{name}.yaml").read_text())
    vendor = vendor_named(data["vendor"])
    assert vendor is not None
    typed = {"vendor": vendor.name, "slot_name": vendor.slot}
    return MachineFixture(
        vendor.name,
        report_of(data["report"]),
        tuple(AcceleratorDevice(**(typed | device)) for device in data["devices"]),
        tuple(_use(use) for use in data["uses"]),
    )


def _use(data: dict[str, Any]) -> DeviceUse:
    if "processes" in data:
        data["processes"] = tuple(DeviceProcess(**each) for each in data["processes"])
    return DeviceUse(**data)


def report_of(data: Mapping[str, Any]) -> MachineReport:
    files: dict[str, str] = {}
    for path, text in data.get("files", {}).items():
        if isinstance(text, str):
            files[path] = text
        else:
            files |= {f"{path}/{name}": f"{value}\n" for name, value in text.items()}
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    nodes = {
        path: DeviceNodeFacts(kind="c", major=200, minor=minor, gid=44, mode=0o660)
        for minor, path in enumerate(data.get("nodes", ()))
    }
    commands = {
        command_key(each["argv"]): CommandOutput(exit_code=0, stdout=each["stdout"])
        for each in data.get("commands", ())
    }
    return MachineReport(
        paths=tuple(sorted({*parents, *files, *data.get("paths", ())})),
        files=files,
        links=data.get("links", {}),
        nodes=nodes,
        commands=commands,
        runtimes=tuple(data.get("runtimes", ())),
        cdi_devices=tuple(data.get("cdi_devices", ())),
    )
