"""Removal of what killed engines leave: processes by a mark in their environment, containers by control
group, mounts and directories by path, bridges by name and address.
"""

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

from portal.ops.cluster.layout import Cluster
from portal.ops.cluster.machines import remove_cluster
from portal.ops.locks import directory_lock
from portal.ops.processes import is_alive
from tests.waiting import wait_until

MARK = "BERTH_FAULT_TESTS"
HOMES = Path("/tmp")
PREFIX = "berth-faults-"
POOLS = tuple(IPv4Network("10.222.0.0/16").subnets(new_prefix=20))
BRIDGES = "bth"  # how names of sessions' bridges begin
POOL_FILE, CLUSTER_FILE = "pool", "cluster"
CGROUPS = Path("/sys/fs/cgroup")
INTERFACES = Path("/sys/class/net")
GET_ADDRESS, SET_FLAGS, DELETE_BRIDGE = 0x8915, 0x8914, 0x89A1  # ioctls on interfaces


def home_of(owner: int) -> Path:
    """Where the run of this process keeps everything; short, as paths of sockets must be."""
    return HOMES / f"{PREFIX}{owner}"


def begin_run(owner: int) -> Path:
    """The home of the run of this process, with a pool that is nobody else's. What runs left whose process was killed goes first:
    their pools are not free before."""
    home = home_of(owner)
    with directory_lock(HOMES):
        clear_away_abandoned_runs()
        taken = {pool_of(other) for other in HOMES.glob(f"{PREFIX}*")}
        free = [number for number, pool in enumerate(POOLS) if pool not in taken]
        assert free, f"{len(POOLS)} runs at once are the most"
        home.mkdir(mode=0o711)
        (home / POOL_FILE).write_text(str(free[0]))
    return home


def clear_away_abandoned_runs() -> None:
    """Runs whose process was killed; one of our own number too, as we have not begun."""
    for home in HOMES.glob(f"{PREFIX}*"):
        owner = home.name.removeprefix(PREFIX)
        if owner.isdigit() and (int(owner) == os.getpid() or not is_alive(int(owner))):
            remove_run(home)


def remove_run(home: Path) -> None:
    """End all that runs for `home`, and remove what is left of it, its cluster of machines too."""
    if (home / CLUSTER_FILE).exists():
        remove_cluster(Cluster((home / CLUSTER_FILE).read_text()))
    mark = f"{MARK}={home}".encode()
    wait_until(lambda: not kill_all(marked(mark)), deadline_s=60)
    for group in groups_of(home):
        # A group stays for as long as a dead process in it has not been waited for.
        wait_until(lambda group=group: is_removed(group), deadline_s=60)  # type: ignore[misc]
    unmount_below(home)
    # While the home still says which pool was its own.
    wait_until(lambda: not delete_all(bridges_of(home)), deadline_s=60)
    shutil.rmtree(home, ignore_errors=True)


def left_of(home: Path) -> list[str]:
    """Whatever still speaks of this run; nothing after `remove_run`."""
    return [
        *(f"process {pid}" for pid in marked(f"{MARK}={home}".encode())),
        *(f"control group {group}" for group in groups_of(home)),
        *(f"mount {point}" for point in mounts_below(home)),
        *(f"bridge {name}" for name in bridges_of(home)),
        *([str(home)] if home.exists() else []),
    ]


def pool_of(home: Path) -> IPv4Network | None:
    """The addresses of a run's sessions; None for one that has ended, or was killed before it had any."""
    with contextlib.suppress(FileNotFoundError):
        return POOLS[int((home / POOL_FILE).read_text())]
    return None


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


def bridges_of(home: Path) -> list[str]:
    """Bridges of sessions in its pool. Others may use these addresses too, for a network of their own."""
    pool = pool_of(home)
    found = [name for name, address in interface_addresses() if pool and address in pool]
    return [name for name in found if name.startswith(BRIDGES) and (INTERFACES / name / "bridge").exists()]


def interface_addresses() -> Iterator[tuple[str, IPv4Address]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking, GET_ADDRESS, struct.pack("256s", name.encode()))
                yield name, IPv4Address(answer[20:24])


def delete_all(bridges: list[str]) -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for name in bridges:
            with contextlib.suppress(OSError):
                fcntl.ioctl(asking, SET_FLAGS, struct.pack("16sh", name.encode(), 0))  # down, as it must be
                fcntl.ioctl(asking, DELETE_BRIDGE, name.encode())
    return bridges
