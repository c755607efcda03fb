"""Probe, descriptions and reader together: a machine with the files and tools of a fixture is read like its report."""

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from agents.accelerators.description import vendor_named
from agents.accelerators.probe import run_local_probe
from agents.accelerators.report import MachineReport
from agents.accelerators.report_parser import device_probe, presence_probe, read_devices, read_uses
from tests.doubles.machine_reports import NAMES, machine_fixture


def make_files(report: MachineReport, root: Path) -> None:
    for path, target in report.links.items():
        device = root / "sys/bus/pci/devices" / os.path.basename(target)
        device.mkdir(parents=True, exist_ok=True)
        link = root / path[1:]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(device, link.parent))
    for path in report.paths:
        if path not in report.files:
            (root / path[1:]).mkdir(parents=True, exist_ok=True)
    for path, text in report.files.items():
        (root / path[1:]).write_text(text)


def make_tools(report: MachineReport, folder: Path) -> None:
    """Write programs that print the recorded answers, and fail for other arguments."""
    scripts: dict[str, list[str]] = {}
    for number, (key, output) in enumerate(report.commands.items()):
        (folder / f"{number}.txt").write_text(output.stdout)
        tool, *arguments = shlex.split(key)
        scripts.setdefault(tool, []).append(
            f"{shlex.quote(' '.join(arguments))}) exec /bin/cat {folder}/{number}.txt;;"
        )
    for tool, cases in scripts.items():
        (folder / tool).write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\nesac\nexit 9\n")
        (folder / tool).chmod(0o755)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"nvidia"}))  # NVML: tests/contract/test_accelerators.py
def test_machine_is_read_like_its_recorded_report(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = machine_fixture(name)
    vendor = vendor_named(fixture.vendor)
    assert vendor is not None
    root, tools = tmp_path / "machine", tmp_path / "tools"
    root.mkdir()
    tools.mkdir()
    make_files(fixture.report, root)
    make_tools(fixture.report, tools)
    monkeypatch.setenv("PATH", str(tools))
    seen = run_local_probe(presence_probe([vendor]) + device_probe(vendor), str(root))
    report = replace(seen, nodes=fixture.report.nodes)  # only root can make them
    reading = read_devices(vendor, report)
    assert (reading.devices, bool(reading.problem)) == (fixture.devices, False)
    assert read_uses(vendor, fixture.devices, report) == fixture.uses
