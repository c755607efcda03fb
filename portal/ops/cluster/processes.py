"""Processes of machines, found by their environment and their control groups."""

import contextlib
import os
import signal
import time
from pathlib import Path

from portal.ops.cluster.layout import MARK, Cluster, ClusterMachine
from portal.ops.processes import is_alive

CGROUPS = Path("/sys/fs/cgroup")
SHIM_SOCKETS = "/run/containerd/s/"
KILL_LIMIT_S = 30


def marked_processes(owner: Cluster | ClusterMachine) -> list[int]:
    """Return living engines, containerds and shims of a machine, or of all of a cluster."""
    wanted = f"{MARK}={owner.home}"
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            variables = (entry / "environ").read_text(errors="replace").split("\0")
            if any(is_mark(text, wanted, owner) for text in variables) and is_alive(pid):
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


def is_mark(text: str, wanted: str, owner: Cluster | ClusterMachine) -> bool:
    return text == wanted or (isinstance(owner, Cluster) and text.startswith(f"{wanted}/"))


def processes_of(machine: ClusterMachine, program: str) -> list[int]:
    """Return living processes of the machine that run this program."""
    return [pid for pid in marked_processes(machine) if program_of(pid) == program]


def program_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return os.path.basename(words[0].decode(errors="replace"))


def control_groups(owner: Cluster | ClusterMachine) -> list[Path]:
    """Return the control groups: one in version 2, one for each controller in version 1."""
    name = owner.namespace if isinstance(owner, ClusterMachine) else f"berth-cluster-{owner.id}-*"
    return [group for pattern in (name, f"*/{name}") for group in CGROUPS.glob(pattern) if group.is_dir()]


def members(group: Path) -> set[int]:
    pids: set[int] = set()
    with contextlib.suppress(FileNotFoundError):  # groups vanish with their containers meanwhile
        for file in group.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids.update(int(line) for line in file.read_text().split())
    return {pid for pid in pids if is_alive(pid)}


def kill_everything(owner: Cluster | ClusterMachine) -> None:
    """Kill all processes and containers at once, as a power failure does, and remove their control
    groups and the sockets of shims.
    """
    give_up_at = time.monotonic() + KILL_LIMIT_S
    sockets: set[str] = set()
    while True:
        marked, groups = marked_processes(owner), control_groups(owner)
        for pid in marked:
            sockets |= shim_sockets(pid)
        pids = {*marked, *(pid for group in groups for pid in members(group))}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        groups = [group for group in groups if not is_removed(group)]
        if not (pids or groups) or time.monotonic() > give_up_at:
            break
        time.sleep(0.02)
    for path in sockets:
        Path(path).unlink(missing_ok=True)


def shim_sockets(pid: int) -> set[str]:
    """Return the paths of containerd's sockets in the network namespace of a process that has one
    of its own. They are in one directory for all containerds of this machine.
    """
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return set()
        lines = Path(f"/proc/{pid}/net/unix").read_text().splitlines()
    except OSError:
        return set()
    return {path for line in lines if (path := line.split()[-1]).startswith(SHIM_SOCKETS)}


def is_removed(group: Path) -> bool:
    """Remove an empty control group; return True if it is gone."""
    inner: list[Path] = []
    with contextlib.suppress(FileNotFoundError):
        inner = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
    for directory in (*inner, group):
        with contextlib.suppress(OSError):
            directory.rmdir()
    return not group.exists()
