"""Checks the prerequisites of this machine before start. Each failure is one line and a fix.

Engine and control groups are checked in portal.ops.engine.install; bin/up
itself finds a suitable Python.
"""

import contextlib
import shutil
import socket
import sys
import time
from pathlib import Path

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout

OLDEST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 5 * 10**9
# A killed web process may still be closing its socket.
PORT_PATIENCE_S = 3
NAMES_BEFORE_ENV = frozenset({"up.lock", "env.new"})  # files that bin/up creates before env


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> None:
    if version[:2] < OLDEST_PYTHON:
        found = ".".join(map(str, version))
        raise PreflightFailed(
            f"Python {found} is too old; Berth needs Python 3.11 or newer.",
            "Install one (Debian 12, Ubuntu 24.04 and newer: apt-get install python3), then run bin/up again.",
        )


def check_data_directory(layout: Layout) -> None:
    """Check that the directory is ours, empty or absent: purge removes it, so it may hold nothing
    else. Raises PreflightFailed.
    """
    data = layout.data
    entries = set(data.iterdir()) if data.is_dir() else set()
    names = {entry.name for entry in entries - layout.foreign_paths}
    is_foreign = "env" not in names and not names <= NAMES_BEFORE_ENV
    if is_foreign or (data.exists() and not data.is_dir()):
        raise PreflightFailed(
            f"{data} holds something else than data of Berth.",
            "Name an empty or new directory: bin/up --data DIR",
        )


def check_disk(data: Path, least_bytes: int = LEAST_FREE_BYTES) -> None:
    """Check free disk space of the data and of local images. Raises PreflightFailed."""
    for path in (data, Path("/var/lib/docker")):
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        free_bytes = shutil.disk_usage(existing).free
        if free_bytes < least_bytes:
            raise PreflightFailed(
                f"{free_bytes / 1e9:.1f} GB of disk are free at {existing}; Berth needs {least_bytes / 1e9:.0f} GB.",
                "Free some space there, or put the data on another disk: bin/up --data DIR",
            )


def check_port(host: str, port: int, patience_s: float = PORT_PATIENCE_S) -> None:
    give_up_at = time.monotonic() + patience_s
    while (fault := bind_fault(host, port)) is not None:
        if isinstance(fault, PermissionError):
            raise PreflightFailed(
                f"This user may not listen on port {port}.", "Choose a port above 1023: bin/up --port 8080"
            )
        if isinstance(fault, socket.gaierror) or "assign" in str(fault):
            raise PreflightFailed(
                f'This machine has no address "{host}".', "Name one of its own, or all: bin/up --host 0.0.0.0"
            )
        if time.monotonic() > give_up_at:
            raise PreflightFailed(
                f"Port {port} on {host} is taken by another program (ss -ltnp 'sport = :{port}' names it).",
                f"Stop that program, or choose another port: bin/up --port {port + 1}",
            )
        time.sleep(0.1)


def bind_fault(host: str, port: int) -> OSError | None:
    """Return the error of binding to the port, or None."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as fault:
        return fault
    return None
