"""Devices and their use as read from reports of machines, for each vendor (tests/fixtures/accelerators)."""

import re
from dataclasses import replace

import pytest

from agents.accelerators.description import shipped_vendors, vendor_named
from agents.accelerators.report import CommandOutput, MachineReport
from agents.accelerators.report_parser import (
    TOOL_FAILED,
    TOOL_LONG,
    TOOL_SLOW,
    TOOL_UNCLEAR,
    read_devices,
    read_health,
    read_measures,
    read_uses,
)  # fmt: skip
from tests.doubles.machine_reports import NAMES, machine_fixture


@pytest.mark.parametrize("name", NAMES)
def test_a_vendors_report_gives_its_devices_and_their_use(name: str) -> None:
    fixture = machine_fixture(name)
    vendor = vendor_named(fixture.vendor)
    assert vendor is not None
    reading = read_devices(vendor, fixture.report)
    assert reading.devices == fixture.devices
    assert not reading.problem
    assert read_devices(vendor, MachineReport.from_json(fixture.report.to_json())) == reading
    assert read_uses(vendor, reading.devices, fixture.report) == fixture.uses
    for other in shipped_vendors():
        if other != vendor:
            assert not read_devices(other, fixture.report).devices, other.name


def test_ids_survive_another_order() -> None:
    fixture = machine_fixture("gaudi")
    swapped = {
        path.replace("accel0", "accelX").replace("accel1", "accel0").replace("accelX", "accel1"): text
        for path, text in fixture.report.files.items()
    }
    commands = {
        key: replace(output, stdout=re.sub("(?m)^[01]", lambda found: str(1 - int(found[0])), output.stdout))
        for key, output in fixture.report.commands.items()
    }
    gaudi = vendor_named("gaudi")
    assert gaudi is not None
    devices = read_devices(gaudi, replace(fixture.report, files=swapped, commands=commands)).devices
    assert devices is not None
    assert {each.device_id: each.facts["module"] for each in devices} == {
        each.device_id: each.facts["module"] for each in fixture.devices
    }
    assert [each.device_id for each in devices] == [each.device_id for each in reversed(fixture.devices)]


BAD_ANSWERS = {
    "hangs": (CommandOutput(problem="timeout"), TOOL_SLOW),
    "10 MB": (CommandOutput(problem="too_long"), TOOL_LONG),
    "fails": (CommandOutput(exit_code=9, stdout="{}"), TOOL_FAILED),
    "garbage": (CommandOutput(exit_code=0, stdout="\x00\xff Segmentation fault"), TOOL_UNCLEAR),
    "deep": (CommandOutput(exit_code=0, stdout="[" * 100_000), TOOL_UNCLEAR),
}


@pytest.mark.parametrize("name", ["nvidia", "amd", "gaudi"])
@pytest.mark.parametrize(("output", "problem"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_of_a_tool_without_an_answer_the_devices_are_unknown_with_a_reason(
    name: str, output: CommandOutput, problem: str
) -> None:
    fixture = machine_fixture(name)
    report = replace(fixture.report, commands=dict.fromkeys(fixture.report.commands, output))
    vendor = vendor_named(name)
    assert vendor is not None
    reading = read_devices(vendor, report)
    assert (reading.devices, reading.problem.text) == (None, problem)
    read_uses(vendor, fixture.devices, report)


def test_failure_of_nvidias_library_is_told_in_its_words() -> None:
    fixture = machine_fixture("nvidia")
    vendor = vendor_named("nvidia")
    assert vendor is not None
    output = CommandOutput(exit_code=1, stdout='{"error": "Driver/library version mismatch"}\x00\n')
    reading = read_devices(
        vendor, replace(fixture.report, commands=dict.fromkeys(fixture.report.commands, output))
    )
    assert str(reading.problem) == 'The tool “NVML” failed. ({"error": "Driver/library version mismatch"})'


def test_values_in_another_locale_or_out_of_range_are_unknown_and_never_wrong() -> None:
    fixture = machine_fixture("gaudi")
    vendor = vendor_named("gaudi")
    assert vendor is not None
    [(key, output)] = fixture.report.commands.items()
    for value in ("98.304,5 Mio", "nan MiB", "-5 MiB", "9" * 40 + " MiB", "[N/A]"):
        stdout = output.stdout.replace("98304 MiB", f'"{value}"')
        report = replace(fixture.report, commands={key: replace(output, stdout=stdout)})
        reading = read_devices(vendor, report)
        assert reading.devices is not None
        assert {device.mem_bytes for device in reading.devices} == {0}, value
        assert {use.mem_total_bytes for use in read_uses(vendor, reading.devices, report)} == {None}


def test_use_of_a_device_is_judged_by_its_vendors_idle_rule() -> None:
    fixture = machine_fixture("gaudi")
    vendor = vendor_named("gaudi")
    assert vendor is not None
    [(key, output)] = fixture.report.commands.items()
    idle = replace(output, stdout=output.stdout.replace(" 88 %", " 0 %"))
    uses = read_uses(vendor, fixture.devices, replace(fixture.report, commands={key: idle}))
    # The first is held by nobody: there is nothing to judge. The second is held, and does nothing.
    assert [(use.percent, use.activity) for use in uses] == [(0, None), (0, 0)]


def test_lists_and_objects_where_a_value_is_expected_are_unknown() -> None:
    fixture = machine_fixture("rebellions")
    vendor = vendor_named("rebellions")
    assert vendor is not None
    [(key, output)] = fixture.report.commands.items()
    stdout = output.stdout.replace('"group_id": "0"', '"group_id": [0]').replace(
        '"uuid": "d46', '"uuid": {}, "x": "'
    )
    report = replace(fixture.report, commands={key: replace(output, stdout=stdout)})
    devices = read_devices(vendor, report).devices or ()
    assert [(each.device_id, each.link_group) for each in devices] == [
        ("rebellions:2b4f:0000:51:00.0", None),
        ("rebellions:2b50:0000:8a:00.0", None),
    ]
    assert [use.device_id for use in read_uses(vendor, devices, report)] == ["rebellions:2b50:0000:8a:00.0"]


def test_without_a_tool_devices_are_told_apart_by_what_the_kernel_shows() -> None:
    vendor = vendor_named("gaudi")
    assert vendor is not None
    reading = read_devices(vendor, replace(machine_fixture("gaudi").report, commands={}))
    assert [(each.device_id, each.model) for each in reading.devices or ()] == [
        ("gaudi:0000:33:00.0", "Gaudi 2"),
        ("gaudi:0000:9a:00.0", "Gaudi 2"),
    ]
    assert "hl-smi" in str(reading.problem)


def test_a_machine_whose_driver_shows_no_device_has_none_and_says_why() -> None:
    for vendor in shipped_vendors():
        reading = read_devices(vendor, MachineReport())
        assert (reading.devices, bool(reading.problem)) == ((), False)
    amd = vendor_named("amd")
    assert amd is not None
    files = {f"/sys/bus/pci/devices/0000:2f:00.0/{name}": text for name, text in
             {"vendor": "0x1002", "device": "0x740f", "class": "0x038000"}.items()}  # fmt: skip
    reading = read_devices(amd, MachineReport(files=files))
    assert (reading.devices, bool(reading.problem)) == ((), True)


def test_measures_and_health_beyond_the_use_are_told_by_device() -> None:
    fixture = machine_fixture("nvidia")
    nvidia = vendor_named("nvidia")
    assert nvidia is not None
    measures = read_measures(nvidia, fixture.devices, fixture.report)
    assert measures["GPU-aaaa"]["processes"] == [{"pid": 77, "mem": 2**30}]
    assert measures["MIG-cccc"]["sm"] == 12
    health = read_health(nvidia, fixture.devices, fixture.report)
    assert health == {"GPU-aaaa": {"recovery_action": 0, "remap_pending": 0}}
