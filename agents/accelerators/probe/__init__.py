"""Probe of a machine's accelerators: a stand-alone program, how to run it here, and its answer.

On the portal's own machine it runs as a process; elsewhere in a helper container, which gets
`program_files`. It is the same program with the same answer, and what hangs or breaks in it, such as
a driver's library, does neither to Berth.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pynvml

from agents.accelerators.report import MachineReport, ProbeRequest

MOUNTED_AT = "/machine"
"""Directory of a probe's container in which it sees the machine's /sys and /dev."""
ANSWERS_WITHIN_S = 60
"""Limit for all commands of a probe together, and for its files; the program itself ends earlier."""
METER_EVERY_S = 1
MAX_REPORT_BYTES = 8 * 2**20
_FOLDER = Path(__file__).parent
_PYTHON_OPTIONS = ("-E", "-s", "-B")


class ProbeFailed(Exception):
    """The probe gave no answer that can be read; the text says why."""


@cache
def program_files() -> Mapping[str, bytes]:
    """Return {name: content} of the files of the program, which belong into one directory."""
    return {
        **{name: (_FOLDER / name).read_bytes() for name in ("collect.py", "meter.py", "nvml.py")},
        "pynvml.py": Path(pynvml.__file__).read_bytes(),
    }


def probe_command(request: ProbeRequest, *, python: str, folder: str, root: str) -> tuple[str, ...]:
    """Return the command that prints the report; paths are below `root`."""
    return (python, *_PYTHON_OPTIONS, f"{folder}/collect.py", root, json.dumps(asdict(request)))


def meter_command(request: ProbeRequest, *, python: str, folder: str, root: str) -> tuple[str, ...]:
    """Return the command that prints a report, a line of JSON, every METER_EVERY_S seconds."""
    wanted = json.dumps(asdict(request))
    return (python, *_PYTHON_OPTIONS, f"{folder}/meter.py", root, wanted, str(METER_EVERY_S))


def run_local_probe(request: ProbeRequest, root: str = "/") -> MachineReport:
    """Probe the machine of this process. Raises ProbeFailed."""
    command = probe_command(request, python=sys.executable, folder=str(_FOLDER), root=root)
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = program.communicate(timeout=ANSWERS_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        # Not waited for: one that hangs in a call of a driver cannot be killed.
        program.kill()
        for stream in (program.stdout, program.stderr):
            if stream is not None:
                stream.close()
        raise ProbeFailed(f"The probe did not answer within {ANSWERS_WITHIN_S} s.") from error
    return read_report(program.returncode, output or errors)


def read_report(exit_code: int, output: bytes) -> MachineReport:
    """Return the report that the program printed. Raises ProbeFailed."""
    if exit_code != 0 or len(output) > MAX_REPORT_BYTES:
        raise ProbeFailed(output[-500:].decode(errors="replace").strip() or f"exit code {exit_code}")
    try:
        return MachineReport.from_json(json.loads(output))
    except (ValueError, TypeError, AttributeError) as error:
        raise ProbeFailed(f"unreadable report: {error}"[:500]) from error
