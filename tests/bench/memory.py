"""Measure the memory of all processes of a portal, with databases, without engine and sessions."""

import contextlib
from pathlib import Path

from portal.ops.locks import holder
from portal.ops.processes import leftover_processes
from tests.bench.frame import Measure, Options, Row, row_of

KIB_PER_MIB = 1024


def bench(options: Options) -> list[Row]:
    """Return MiB by process and in total. PSS divides shared pages among their users, so sums are
    true.
    """
    layout = options.layout
    supervisor = holder(layout)
    if supervisor is None:
        raise SystemExit(f"No portal runs on {layout.data}. Start it: bin/up")
    sizes = {
        f"PSS of {name_of(pid)} ({pid})": found["Pss"]
        for pid in sorted({supervisor} | with_descendants(set(leftover_processes(layout.data))))
        if (found := sizes_of(pid))
    }
    sizes["PSS of all"] = sum(sizes.values())
    return [row_of(Measure(name, "MiB", float), [size], []) for name, size in sizes.items()]


def with_descendants(pids: set[int]) -> set[int]:
    """Return `pids` and all descendants, which include PostgreSQL's processes without a mark.

    PostgreSQL writes process titles over the environment that has the mark.
    """
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
    """Return {"Rss": MiB, "Pss": MiB} of a process; empty if it ended
    or belongs to another user.
    """
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
