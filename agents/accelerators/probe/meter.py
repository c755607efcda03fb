"""Prints what a machine's accelerators do, a line of JSON every second, until it is ended. Stand-alone:
it needs Python's library, and collect.py and nvml.py beside it.

python3 meter.py ROOT REQUEST EVERY_S: arguments as of collect.py. Each line is a `MachineReport` with
"line", its number. Files are read each time, and found again once a minute; vendors' tools are run every
ten seconds. The use that NVIDIA's library tells is the mean of the last ten lines, rounded up. Ends with
code 3 when that library fails as a whole, as after an upgrade of the driver.
"""

import json
import math
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

LINES_OF_A_MEAN = 10
PROCESSES_TOLD = 40  # of a device: a line is not longer than its reader takes
FIND_EVERY_S = 60.0
RUN_EVERY_S = 10.0
LIBRARY_FAILED = 3

collect = import_module("collect")


class Meter:
    """One machine with its files below `root`."""

    def __init__(self, wanted: Mapping[str, Sequence[Any]], root: str) -> None:
        commands = [list(command) for command in wanted.get("commands", ())]
        self._root, self._wanted = root, {**wanted, "commands": ()}
        self._commands = [command for command in commands if command != [collect.NVML]]
        self._nvml = Nvml() if [collect.NVML] in commands else None
        self._found: Any = {}
        self._outputs: dict[str, Any] = {}
        self._found_at = self._ran_at = -math.inf
        self._line = 0

    def reading(self) -> dict[str, Any]:
        now = time.monotonic()
        if now - self._found_at >= FIND_EVERY_S:
            self._found, self._found_at = collect.collect(self._wanted, self._root), now
        else:
            self._found["files"] = collect.collect({"files": list(self._found["files"])}, self._root)["files"]
        if self._commands and now - self._ran_at >= RUN_EVERY_S:
            self._outputs, self._ran_at = (
                collect.collect({"commands": self._commands}, self._root)["commands"],
                now,
            )
        self._line += 1
        own = {collect.NVML: self._nvml.output(now)} if self._nvml else {}
        return {**self._found, "commands": {**self._outputs, **own}, "line": self._line}


class Nvml:
    """NVIDIA's library, opened once."""

    def __init__(self) -> None:
        self._nvml = import_module("nvml")
        self._nvml.pynvml.nvmlInit()
        self._uses: dict[str, deque[float]] = {}
        self._health: dict[str, dict[str, Any]] = {}
        self._events = self._nvml.Events()
        self._judged_at = -math.inf

    def output(self, now: float) -> dict[str, Any]:
        has_health = now - self._judged_at >= RUN_EVERY_S
        devices = self._nvml.measures(has_health=has_health)
        if has_health:
            self._judged_at = now
            xids = self._events.xids()
            self._health = {
                each["uuid"]: {**each, **({} if xids is None else {"xids": xids.get(each["uuid"], [])})}
                for each in devices
            }
        told = [{**self._health.get(each["uuid"], {}), **each, **self._limited(each)} for each in devices]
        return {"exit_code": 0, "stdout": json.dumps({"devices": told}, separators=(",", ":")), "problem": ""}

    def _limited(self, device: Mapping[str, Any]) -> dict[str, Any]:
        """Return the mean use and the largest processes of a device, of those that are told."""
        limited: dict[str, Any] = {}
        if "util" in device:
            uses = self._uses.setdefault(device["uuid"], deque(maxlen=LINES_OF_A_MEAN))
            uses.append(device["util"])
            limited["util"] = math.ceil(sum(uses) / len(uses))
        if "processes" in device:
            largest = sorted(device["processes"], key=lambda each: -each.get("mem", 0))
            limited["processes"] = largest[:PROCESSES_TOLD]
        return limited


def main(root: str, wanted: Mapping[str, Sequence[Any]], every_s: float) -> None:
    meter = Meter(wanted, root)
    due = time.monotonic()
    while True:
        print(json.dumps(meter.reading(), separators=(",", ":")), flush=True)  # noqa: T201
        due = max(due + every_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    try:
        main(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]))
    except Exception as error:
        if type(error).__module__ != "pynvml":
            raise
        sys.exit(LIBRARY_FAILED)
