"""What all processes of one portal hold together, databases included, engine and sessions not."""

import contextlib
from pathlib import Path

from portal.ops.layout import Layout
from portal.ops.locks import holder
from portal.ops.processes import marked_processes

KIB_PER_MIB = 1024


def measure(layout: Layout) -> dict[str, float]:
    """MiB by process and in all. PSS shares each common page out among its users, so that sums are true."""
    supervisor = holder(layout)
    if supervisor is None:
        raise SystemExit(f"No portal runs on {layout.data}. Start it: bin/up")
    numbers = {}
    for pid in sorted({supervisor} | with_descendants(set(marked_processes(layout.data)))):
        sizes = sizes_of(pid)
        if sizes:
            numbers[f"pss_mib {pid} {name_of(pid)}"] = sizes["Pss"]
            numbers["rss_mib all"] = round(numbers.get("rss_mib all", 0) + sizes["Rss"], 1)
            numbers["pss_mib all"] = round(numbers.get("pss_mib all", 0) + sizes["Pss"], 1)
    return numbers


def with_descendants(pids: set[int]) -> set[int]:
    """`pids` and their children's children: PostgreSQL's write their titles over the mark in their environment."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def sizes_of(pid: int) -> dict[str, float]:
    """{"Rss": MiB, "Pss": MiB} of a process; empty if it ended or is somebody else's."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.partition(":") for line in lines)
    return {
        name: round(int(value.split()[0]) / KIB_PER_MIB, 1)
        for name, _, value in fields
        if name in ("Rss", "Pss")
    }


def name_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
    return " ".join(Path(word).name for word in words[:4])[:25]
