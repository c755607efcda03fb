"""Finds and ends processes left by an earlier bin/up, by a mark in their environment."""

import os
import signal
import time
from pathlib import Path

MARK = "BERTH_SUPERVISED"
PATIENCE_S = 5


def marker_environment(data: Path) -> dict[str, str]:
    """Return the variable that marks every process of this installation's supervisor."""
    return {MARK: str(data)}


def leftover_processes(data: Path) -> list[int]:
    """Return the ids of living processes with our mark; unreadable ones belong to other users."""
    wanted = f"{MARK}={data}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in environment and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def stop_leftovers(data: Path, patience_s: float = PATIENCE_S) -> int:
    """Terminate leftover processes, then kill them after a grace period. Returns their number."""
    count = len(leftover_processes(data))
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, patience_s)):
        for pid in leftover_processes(data):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        give_up_at = time.monotonic() + wait_s
        while leftover_processes(data) and time.monotonic() < give_up_at:
            time.sleep(0.02)
    return count


def is_alive(pid: int) -> bool:
    """Return True for a running process, False for zombies: some machines reap orphans late."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
