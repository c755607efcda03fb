"""What engines of these tests leave on the machine when they are killed, and how it goes: processes by a mark in their
environment, containers by their control group, mounts and directories by their path, bridges by their address."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from portal.ops.processes import is_alive
from tests.waiting import wait_until

MARK = "BERTH_FAULT_TESTS"
HOMES = Path("/tmp")
PREFIX = "berth-faults-"
POOL = IPv4Network("10.222.0.0/16")
CGROUPS = Path("/sys/fs/cgroup")
GET_ADDRESS, SET_FLAGS, DELETE_BRIDGE = 0x8915, 0x8914, 0x89A1  # ioctls on interfaces


def home_of(owner: int) -> Path:
    """Where the run of this process keeps everything; short, as paths of sockets must be."""
    return HOMES / f"{PREFIX}{owner}"


def clear_away_abandoned_runs() -> None:
    """Runs whose process was killed."""
    for home in HOMES.glob(f"{PREFIX}*"):
        owner = home.name.removeprefix(PREFIX)
        if owner.isdigit() and not is_alive(int(owner)):
            remove_run(home)


def remove_run(home: Path) -> None:
    """End all that runs for `home`, and remove what is left of it."""
    mark = f"{MARK}={home}".encode()
    wait_until(lambda: not kill_all(marked(mark)), deadline_s=60)
    for group in groups_of(home):
        # A group stays for as long as a dead process in it has not been waited for.
        wait_until(lambda group=group: is_removed(group), deadline_s=60)  # type: ignore[misc]
    unmount_below(home)
    for bridge in bridges_in(pool_of(home)):
        delete_bridge(bridge)
    shutil.rmtree(home, ignore_errors=True)


def left_of(home: Path) -> list[str]:
    """Whatever still speaks of this run; nothing after `remove_run`."""
    return [
        *(f"process {pid}" for pid in marked(f"{MARK}={home}".encode())),
        *(f"control group {group}" for group in groups_of(home)),
        *(f"mount {point}" for point in mounts_below(home)),
        *(f"bridge {name}" for name in bridges_in(pool_of(home))),
        *([str(home)] if home.exists() else []),
    ]


def pool_of(home: Path) -> IPv4Network:
    """A /20 of its own for each run, so that two at the same time do not meet."""
    number = int(home.name.removeprefix(PREFIX)) % 16
    return list(POOL.subnets(new_prefix=20))[number]


def cgroup_of(home: Path) -> str:
    return f"/{home.name}"


def kill_all(pids: list[int]) -> list[int]:
    """Sends SIGKILL; a process that was stopped or frozen is let go so that it can die."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def marked(mark: bytes) -> list[int]:
    """Processes that carry the mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            if mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(pid):
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


def groups_of(home: Path) -> list[Path]:
    """Its control groups, of version 1 (one for each controller) or 2."""
    name = cgroup_of(home).lstrip("/")
    return [group for group in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if group.is_dir()]


def members(group: Path) -> list[int]:
    pids: set[int] = set()
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            pids.update(int(line) for line in file.read_text().split())
    return [pid for pid in pids if is_alive(pid)]


def is_removed(group: Path) -> bool:
    """Kill what runs in it, and try to remove it; whether it is gone."""
    kill_all(members(group))
    for directory in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        with contextlib.suppress(OSError):
            directory.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def mounts_below(home: Path) -> list[str]:
    """The deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].replace("\\040", " ") for line in lines]
    return sorted((point for point in points if point.startswith(f"{home}/")), reverse=True)


def unmount_below(home: Path) -> None:
    for point in mounts_below(home):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def bridges_in(pool: IPv4Network) -> list[str]:
    return [name for name, address in interface_addresses() if address in pool]


def interface_addresses() -> Iterator[tuple[str, IPv4Address]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking, GET_ADDRESS, struct.pack("256s", name.encode()))
                yield name, IPv4Address(answer[20:24])


def delete_bridge(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        fcntl.ioctl(asking, SET_FLAGS, struct.pack("16sh", name.encode(), 0))  # down, as it must be
        fcntl.ioctl(asking, DELETE_BRIDGE, name.encode())
