"""Probe of accelerators, through NVIDIA's real bindings on a fake driver library."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.accelerators import probe
from agents.accelerators.base import DeviceProcess, DeviceUse
from agents.accelerators.description import vendor_named
from agents.accelerators.probe import run_local_probe
from agents.accelerators.report import MachineReport, ProbeRequest, command_key
from agents.accelerators.report_parser import (
    VendorReading,
    device_probe,
    read_devices,
    read_health,
    read_uses,
    use_probe,
)
from tests.nvml import FakeNvml

MIB = 2**20
NVML = ("berth-nvml",)
VENDOR = vendor_named("nvidia")
assert VENDOR


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """With two devices."""
    machine = FakeNvml(tmp_path)
    for name, value in machine.environment(gpus=2).items():
        monkeypatch.setenv(name, value)
    return machine


def look() -> MachineReport:
    assert VENDOR
    report = run_local_probe(ProbeRequest(commands=device_probe(VENDOR).commands))
    return MachineReport(commands=report.commands, runtimes=("nvidia",))  # a sign of its devices


def read() -> tuple[VendorReading, tuple[DeviceUse, ...]]:
    assert VENDOR
    report = look()
    reading = read_devices(VENDOR, report)
    return reading, read_uses(VENDOR, reading.devices or (), report)


def told() -> list[dict[str, Any]]:
    return list(
        json.loads(run_local_probe(ProbeRequest(commands=(NVML,))).commands[command_key(NVML)].stdout)[
            "devices"
        ]
    )


def test_the_drivers_library_tells_what_each_device_is_and_does(machine: FakeNvml) -> None:
    machine.do("0 used 20480", "0 percent 37", "0 pid 4711", "1 used 0")
    reading, (busy, idle) = read()
    assert reading.devices is not None
    first, second = reading.devices
    assert (first.device_id[:4], first.index, first.slot_name) == ("GPU-", 0, "cuda")
    assert (first.model, first.mem_bytes, first.numa_node) == ("NVIDIA H100 80GB HBM3", 81559 * MIB, 0)
    assert (first.driver, first.api_version, first.link_group) == ("575.57.08", 12090, None)
    assert (busy.device_id, idle.device_id) == (first.device_id, second.device_id)
    assert (busy.percent, busy.mem_bytes, busy.mem_total_bytes) == (37, 20480 * MIB, 81559 * MIB)
    assert (busy.watts, busy.celsius) == (70.5, 40)
    assert (idle.percent, idle.mem_bytes) == (0, 0)
    assert machine.times_opened == 1
    assert [device["processes"] for device in told()] == [[{"pid": 4711, "mem": 20480 * MIB}], []]


def test_devices_that_nvlink_joins_and_instances_of_a_split_one_are_known_as_such(machine: FakeNvml) -> None:
    machine.do("0 link 1", "1 link 1", "1 instances 2")
    reading, _ = read()
    assert reading.devices is not None
    instances = [device for device in reading.devices if device.profile]
    whole = {device.index: device for device in reading.devices if not device.profile}
    assert whole[0].link_group == whole[1].link_group == 0
    assert {(each.parent_id, each.profile) for each in instances} == {(whole[1].device_id, "1g.10gb")}
    assert len({each.device_id for each in instances}) == 2
    assert instances[0].mem_bytes == 81559 // 8 * MIB


def test_signs_of_illness_are_told(machine: FakeNvml) -> None:
    machine.do("1 recovery 2", "1 pending 1", "1 ecc 3", "1 reasons 64")
    names = ("recovery_action", "remap_pending", "remap_failure", "ecc_uncorrected", "throttle")
    assert [[device[name] for name in names] for device in told()] == [[0] * 5, [2, 1, 0, 3, 1]]


def test_a_device_that_fell_off_its_bus_is_absent_and_hides_no_other(machine: FakeNvml) -> None:
    machine.do("0 refuses 2", "1 used 1024", "1 percent 5")
    reading, (use,) = read()
    assert [device.index for device in reading.devices or ()] == [1]
    assert (use.device_id[-1], use.percent, use.mem_bytes) == ("1", 5, 1024 * MIB)


def test_what_a_device_does_not_tell_is_unknown_and_never_nothing(machine: FakeNvml) -> None:
    machine.do("0 refuses 1", "0 used 512")
    _, (split, _whole) = read()
    assert (split.percent, split.mem_bytes) == (None, 512 * MIB)


def test_devices_of_a_driver_that_fails_or_is_missing_are_unknown(
    machine: FakeNvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "FAKE_NVML_REFUSES", "18"
    )  # library and driver of different versions, after an upgrade
    reading, uses = read()
    assert (reading.devices, bool(reading.problem), uses) == (None, True, ())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert read()[0].devices is None


def test_a_meter_tells_use_by_the_second_and_ends_when_the_library_fails(
    machine: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert VENDOR
    machine.do("0 percent 1", "0 used 20480", "0 pid 4711", "1 refuses 2", "0 ecc 3", "0 xid 79")
    folder = str(Path(probe.__file__).parent)
    command = probe.meter_command(use_probe(VENDOR), python=sys.executable, folder=folder, root="/")
    meter = subprocess.Popen([*command[:-1], "0.05"], stdout=subprocess.PIPE)
    try:
        assert meter.stdout
        lines = [json.loads(meter.stdout.readline()) for _ in range(3)]
        machine.do("0 percent 0")
        uses = [json.loads(meter.stdout.readline()) for _ in range(4)]
    finally:
        meter.kill()
        meter.wait()
    assert [line.pop("line") for line in lines + uses] == [1, 2, 3, 4, 5, 6, 7]
    devices = read()[0].devices or ()
    [use] = read_uses(VENDOR, devices, MachineReport.from_json(lines[-1]))
    assert (use.percent, use.mem_bytes, use.processes) == (
        1,
        20480 * MIB,
        (DeviceProcess(4711, 20480 * MIB),),
    )
    health = read_health(VENDOR, devices, MachineReport.from_json(lines[-1]))[use.device_id]
    assert (health["ecc_uncorrected"], health["xids"]) == (3, [79])
    # The mean of what it saw, rounded up: a little is not nothing.
    assert read_uses(VENDOR, devices, MachineReport.from_json(uses[-1]))[0].percent == 1
    assert machine.times_opened <= 2

    monkeypatch.setenv("FAKE_NVML_REFUSES", "18")
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 3
