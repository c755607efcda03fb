"""List of things that a probe reads on a machine, and its report. Values that travel as JSON; they
know no vendor.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

MAX_FILE_CHARACTERS = 16_384
MAX_OUTPUT_CHARACTERS = 1_048_576
"""Of one file, and of one command. A longer output is not reported (`problem` is "too_long")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNodeFacts:
    kind: str  # "c": character device, "b": block device
    major: int
    minor: int
    gid: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """Size of a file system, and what of it is free for programs that are not root's."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """Answer of a vendor's tool. `problem`: "" or "missing", "timeout", "too_long"."""

    exit_code: int | None = None
    stdout: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """Request to a probe: globs of paths to list, of files to read, of links, of device nodes,
    commands, and directories whose disks are measured (as the probe itself sees them); and what its
    container needs for the commands: device nodes and files of the machine, all devices of drivers of
    the engine, runtimes.

    A listed path is reported if it exists. Commands run one after the other with `LC_ALL=C`, each with
    a time limit. The command "berth-nvml" is the probe's own: it prints what NVIDIA's library tells.
    """

    paths: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    disks: tuple[str, ...] = ()
    given_devices: tuple[str, ...] = ()
    given_files: tuple[str, ...] = ()
    given_drivers: tuple[str, ...] = ()
    given_runtimes: tuple[str, ...] = ()

    def __add__(self, other: "ProbeRequest") -> "ProbeRequest":
        joined = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return ProbeRequest(**{name: tuple(dict.fromkeys(values)) for name, values in joined.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """Report of a machine: existing paths, texts of files, targets of links, device nodes, outputs
    of commands (by `command_key`), disks by directory, and what its engine told: runtimes, names of CDI
    devices, version.
    """

    paths: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, DeviceNodeFacts] = field(default_factory=dict)
    commands: Mapping[str, CommandOutput] = field(default_factory=dict)
    disks: Mapping[str, DiskFacts] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    engine_version: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MachineReport":
        """Return the report in `data`, of which keys may be absent. Raises TypeError for unknown keys."""
        values = dict(data)
        for name in ("paths", "runtimes", "cdi_devices"):
            values[name] = tuple(values.get(name, ()))
        values["nodes"] = {path: DeviceNodeFacts(**each) for path, each in values.get("nodes", {}).items()}
        values["commands"] = {key: CommandOutput(**each) for key, each in values.get("commands", {}).items()}
        values["disks"] = {path: DiskFacts(**each) for path, each in values.get("disks", {}).items()}
        return cls(**values)


def command_key(argv: Sequence[str]) -> str:
    """Return the key of a command's output in a report."""
    return shlex.join(argv)
