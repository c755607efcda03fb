"""Laws of reading machines: whatever a machine reports, no vendor raises, and what is found can be stored."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.accelerators.description import shipped_vendors
from agents.accelerators.report import CommandOutput, MachineReport
from agents.accelerators.report_parser import is_present, read_devices, read_health, read_uses
from tests.doubles.machine_reports import NAMES, machine_fixture

NUMBERS = st.integers() | st.floats() | st.just(10**400)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20) | st.sampled_from(["N/A", "-1", "1,5", "0x", "\x00", "¼"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def spoilt(value: Any, draw: Any) -> Any:
    """A copy of a value of JSON in which some parts are others."""
    if draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    if isinstance(value, dict):
        return {name: spoilt(each, draw) for name, each in value.items()}
    return [spoilt(each, draw) for each in value] if isinstance(value, list) else value


@st.composite
def reports(draw: Any) -> tuple[MachineReport, str]:
    """A report of a machine in which files and answers of tools are spoilt, and the name of its vendor."""
    fixture = machine_fixture(draw(st.sampled_from(NAMES)))
    files = {
        path: draw(st.text(max_size=30)) if draw(st.integers(0, 4)) == 0 else text
        for path, text in fixture.report.files.items()
    }
    commands = {}
    for key, output in fixture.report.commands.items():
        try:
            text = json.dumps(spoilt(json.loads(output.stdout), draw))
        except ValueError:
            text = output.stdout.replace(
                draw(st.sampled_from(list(output.stdout))), draw(st.text(max_size=3))
            )
        commands[key] = CommandOutput(exit_code=0, stdout=text)
    return replace(fixture.report, files=files, commands=commands), fixture.vendor


@given(reports())
def test_any_report_is_read_without_an_error_into_what_can_be_stored(
    spoilt_one: tuple[MachineReport, str],
) -> None:
    report, _name = spoilt_one
    for vendor in shipped_vendors():
        reading = read_devices(vendor, report)
        assert reading.devices == () or is_present(vendor, report)
        devices = reading.devices or ()
        assert len({device.device_id for device in devices}) == len(devices)
        for device in devices:
            assert 0 < len(device.device_id) <= 128
            assert 0 <= device.index < 2**31
            assert 0 <= device.mem_bytes < 2**63
            assert 0 <= device.api_version < 2**31
            assert max(len(device.pci_address), len(device.driver), len(device.profile)) <= 60
            assert "\x00" not in json.dumps(device.to_json(), allow_nan=False)
        for use in read_uses(vendor, devices, report):
            assert use.percent is None or 0 <= use.percent <= 100
            assert use.mem_bytes is None or 0 <= use.mem_bytes < 2**63
        read_health(vendor, devices, report)
