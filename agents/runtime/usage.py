"""Resource usage of a running container, and its parser for Docker's statistics. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """One measurement of a container; `at` is by the engine's clock.

    Memory is the present use without reclaimable file cache; all other values are totals since the
    start of the container. None: the engine does not report it.
    """

    at: datetime
    cpu_ns: int | None = None
    mem_bytes: int | None = None
    net_received_bytes: int | None = None
    net_sent_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None


def parse_usage(stats: Mapping[str, Any]) -> ContainerUsage:
    """Parse Docker's answer for a running container."""
    memory = stats.get("memory_stats") or {}
    received, sent = _traffic((stats.get("networks") or {}).values())
    read, written = _disk((stats.get("blkio_stats") or {}).get("io_service_bytes_recursive"))
    return ContainerUsage(
        at=datetime.fromisoformat(stats["read"]),
        cpu_ns=((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage"),
        mem_bytes=_memory_usage(memory),
        net_received_bytes=received,
        net_sent_bytes=sent,
        disk_read_bytes=read,
        disk_written_bytes=written,
    )


def _memory_usage(memory: Mapping[str, Any]) -> int | None:
    """Return the memory usage without inactive file cache, as `docker stats` does."""
    usage, stats = memory.get("usage"), memory.get("stats") or {}
    if usage is None:
        return None
    return max(0, int(usage) - int(stats.get("inactive_file", stats.get("total_inactive_file", 0))))


def _traffic(interfaces: Iterable[Mapping[str, int]]) -> tuple[int | None, int | None]:
    """Return bytes received and sent over all interfaces; None for a container without any."""
    each = list(interfaces)
    if not each:
        return None, None
    return sum(one["rx_bytes"] for one in each), sum(one["tx_bytes"] for one in each)


def _disk(entries: list[Mapping[str, Any]] | None) -> tuple[int | None, int | None]:
    """Return bytes read and written over all devices; None if the engine reports null, which means
    unsupported or no data yet.
    """
    if entries is None:
        return None, None
    sums = {"read": 0, "write": 0}
    for entry in entries:
        name = str(entry["op"]).lower()
        if name in sums:
            sums[name] += entry["value"]
    return sums["read"], sums["write"]
