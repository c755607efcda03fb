"""Promises of every vendor's discovery; NVIDIA's through its real bindings on a fake driver library."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.accelerators import discover_devices, measure_devices
from agents.accelerators.base import DeviceUse
from portal.ops.paths import CHECKOUT
from tests.doubles.accelerators import MockDiscovery

MIB = 2**20
ASK = """
import json
from dataclasses import asdict
from agents.accelerators import discover_devices, measure_devices
print(json.dumps({"devices": [asdict(each) for each in discover_devices() or ()], "uses": [asdict(each) for each in measure_devices()]}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a loader finds the library under the driver's name."""
    if shutil.which("gcc") is None:
        raise AssertionError("Tests of NVIDIA's library need a C compiler: apt-get install g++")
    made = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = CHECKOUT / "tests" / "doubles" / "fake_nvml.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(made), str(source)],
        check=True,
    )
    return made.parent


class Machine:
    """With two devices, asked by a process of its own, as the library is loaded once for each."""

    def __init__(self, library: Path, notes: Path) -> None:
        self._library, self._state, self._opened = library, notes / "state", notes / "opened"

    def do(self, *lines: str) -> None:
        self._state.write_text("\n".join(lines) + "\n")

    def ask(self) -> Mapping[str, list[dict[str, Any]]]:
        variables = {
            "LD_LIBRARY_PATH": str(self._library),
            "FAKE_NVML_GPUS": "2",
            "FAKE_NVML_STATE": str(self._state),
            "FAKE_NVML_OPENED": str(self._opened),
        }
        self._opened.unlink(missing_ok=True)
        command = [sys.executable, "-c", ASK]
        answer = subprocess.run(
            command, env=os.environ | variables, cwd=CHECKOUT, capture_output=True, text=True, check=True
        )
        told: dict[str, list[dict[str, Any]]] = json.loads(answer.stdout.splitlines()[-1])
        return told

    @property
    def times_opened(self) -> int:
        return self._opened.stat().st_size


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Machine:
    return Machine(library, tmp_path)


def test_the_drivers_library_tells_what_each_device_does(machine: Machine) -> None:
    machine.do("0 20480 37 0", "1 0 0 0")
    told = machine.ask()
    assert [device["device_id"] for device in told["devices"]] == [use["device_id"] for use in told["uses"]]
    busy, idle = told["uses"]
    assert (busy["percent"], busy["mem_bytes"], busy["mem_total_bytes"]) == (37, 20480 * MIB, 81559 * MIB)
    assert (busy["watts"], busy["celsius"]) == (70.5, 40)
    assert (idle["percent"], idle["mem_bytes"]) == (0, 0)
    assert machine.times_opened == 2  # once to find them, once to measure all of them


def test_a_device_that_fell_off_its_bus_is_absent_and_hides_no_other(machine: Machine) -> None:
    machine.do("0 512 99 2", "1 1024 5 0")
    told = machine.ask()
    assert [device["index"] for device in told["devices"]] == [1]
    [use] = told["uses"]
    assert (use["device_id"][-1], use["percent"], use["mem_bytes"]) == ("1", 5, 1024 * MIB)


def test_what_a_device_does_not_tell_is_unknown_and_never_nothing(machine: Machine) -> None:
    machine.do("0 512 99 1", "1 1024 5 0")
    split, _whole = machine.ask()["uses"]
    assert (split["percent"], split["mem_bytes"]) == (None, 512 * MIB)


def test_a_made_up_vendor_tells_what_it_is_told_to() -> None:
    vendor = MockDiscovery(2)
    assert [use.percent for use in measure_devices([vendor])] == [0, 0]
    vendor.use(DeviceUse(device_id="mock-1", percent=80, mem_bytes=MIB))
    vendor.fall_silent("mock-0")
    assert [(use.device_id, use.percent) for use in measure_devices([vendor])] == [("mock-1", 80)]
    assert {use.device_id for use in measure_devices([vendor])} < {
        device.device_id for device in discover_devices([vendor]) or ()
    }
