"""Looks at a machine for accelerators and prints what it found as JSON. Stand-alone: it needs Python's
library only, and nvml.py beside it for the command "berth-nvml".

python3 collect.py ROOT REQUEST, where REQUEST is JSON (`agents.accelerators.report.ProbeRequest`) and
paths are below ROOT. Prints a `MachineReport`. A file, node or command that fails is left out or says
why; each costs at most its own part.
"""

import contextlib
import glob
import json
import os
import selectors
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

MAX_FILE_CHARACTERS = 16_384
MAX_OUTPUT_BYTES = 1_048_576
MAX_PATHS = 4096  # of one glob
MAX_TEXT_BYTES = 4 * 1_048_576  # of all files and commands together
COMMAND_LIMIT_S = 10.0
ALL_COMMANDS_LIMIT_S = 40.0
NVML = "berth-nvml"

Json = dict[str, Any]


def collect(wanted: Mapping[str, Sequence[Any]], root: str = "/") -> Json:
    """Return what the machine with its files below `root` has of the wanted things."""
    machine = _Machine(root)
    return {
        "paths": machine.existing(wanted.get("paths", ())),
        "files": machine.texts(wanted.get("files", ())),
        "links": machine.links(wanted.get("links", ())),
        "nodes": machine.nodes(wanted.get("nodes", ())),
        "commands": machine.outputs(wanted.get("commands", ())),
        "disks": disks(wanted.get("disks", ())),
    }


def disks(directories: Iterable[str]) -> Json:
    """Return size and free bytes of the file systems of these directories, as this process sees them: the root
    of a container is on the disk on which its engine has images and containers.
    """
    found = {}
    for directory in directories:
        with contextlib.suppress(OSError):
            facts = os.statvfs(directory)
            found[directory] = {
                "size_bytes": facts.f_blocks * facts.f_frsize,
                "free_bytes": facts.f_bavail * facts.f_frsize,
            }
    return found


class _Machine:
    """A machine whose root directory is `root`; `room` is left for texts."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._has_proc = os.path.isdir(f"{self._root}/proc")
        self._room = MAX_TEXT_BYTES

    def _matches(self, patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield path on the machine and path here of each match of these globs, once."""
        seen: set[str] = set()
        for pattern in patterns:
            if not pattern.startswith("/") or ".." in pattern.split("/"):
                continue
            # The kernel shows the same /proc/driver in each container.
            root = "" if pattern.startswith("/proc/") and not self._has_proc else self._root
            for path in sorted(glob.iglob(glob.escape(root) + pattern))[:MAX_PATHS]:
                if path not in seen:
                    seen.add(path)
                    yield path[len(root) :], path

    def existing(self, patterns: Iterable[str]) -> list[str]:
        return [name for name, _ in self._matches(patterns)]

    def texts(self, patterns: Iterable[str]) -> dict[str, str]:
        found: dict[str, Any] = {}
        for name, path in self._matches(patterns):
            try:
                # A file may have become a pipe or device since; opening it must not block.
                with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                        continue
                    content = file.read(min(4 * MAX_FILE_CHARACTERS, self._room))
            except OSError:
                continue
            found[name] = content.decode(errors="replace")[:MAX_FILE_CHARACTERS]
            self._room -= len(content)
        return found

    def links(self, patterns: Iterable[str]) -> dict[str, str]:
        found: dict[str, Any] = {}
        for name, path in self._matches(patterns):
            try:
                found[name] = os.readlink(path)
            except OSError:
                continue
        return found

    def nodes(self, patterns: Iterable[str]) -> dict[str, Json]:
        found: dict[str, Any] = {}
        for name, path in self._matches(patterns):
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            if not stat.S_ISCHR(facts.st_mode):
                continue  # disks are no accelerators, whatever their name
            found[name] = {
                "kind": "c",
                "major": os.major(facts.st_rdev),
                "minor": os.minor(facts.st_rdev),
                "gid": facts.st_gid,
                "mode": stat.S_IMODE(facts.st_mode),
            }
        return found

    def outputs(self, commands: Iterable[Sequence[str]]) -> dict[str, Json]:
        found: dict[str, Any] = {}
        ends_at = time.monotonic() + ALL_COMMANDS_LIMIT_S
        for argv in commands:
            limit_s = min(COMMAND_LIMIT_S, max(0.0, ends_at - time.monotonic()))
            output = run(_own_command(argv), limit_s, min(MAX_OUTPUT_BYTES, self._room))
            self._room -= len(output["stdout"])
            found[shlex.join(argv)] = output
        return found


def run(argv: Sequence[str], limit_s: float, limit_bytes: int) -> Json:
    """Return exit code and output of a command. One that takes too long or prints too much is ended
    with all its processes.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "LANG": "C"},
            start_new_session=True,
        )
    except OSError:
        return {"exit_code": None, "stdout": "", "problem": "missing"}
    assert process.stdout is not None
    try:
        stdout, problem = _output_of(process.stdout, limit_s, limit_bytes)
        if not problem:
            process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        problem = "timeout"
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
    if problem:  # one that cannot be killed, as in a call of its driver, is not waited for
        return {"exit_code": None, "stdout": "", "problem": problem}
    return {"exit_code": process.returncode, "stdout": stdout.decode(errors="replace"), "problem": ""}


def _output_of(stream: IO[bytes], limit_s: float, limit_bytes: int) -> tuple[bytes, str]:
    """Return the output and what is wrong with it: "", "timeout" or "too_long"."""
    output, ends_at = bytearray(), time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, ends_at - time.monotonic())):
                return b"", "timeout"
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                return bytes(output), ""
            output += chunk
            if len(output) > limit_bytes:
                return b"", "too_long"


def _own_command(argv: Sequence[str]) -> list[str]:
    """Return the command, where the probe's own name stands for the program beside this file."""
    if list(argv) != [NVML]:
        return list(argv)
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvml.py")
    return [sys.executable, "-E", "-s", "-B", beside]


if __name__ == "__main__":
    json.dump(collect(json.loads(sys.argv[2]), sys.argv[1]), sys.stdout)
