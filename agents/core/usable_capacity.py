"""How much of a machine sessions may have. Pure."""

from collections.abc import Mapping

from common.values.resources import CPU, MEM, ResourceSlots

RESERVED_SHARE = 20  # one twentieth of the memory …
RESERVED_MIN_BYTES = 512 * 2**20
RESERVED_MAX_BYTES = 4 * 2**30


def capacity_of(cpu_milli: int, mem_bytes: int, devices: Mapping[str, int] | None = None) -> ResourceSlots:
    """All devices; all cores, since they are shared by weight; memory less a part for the machine and its engine, since
    memory that is gone is gone: a twentieth, at least 512 MiB, at most 4 GiB and never more than half."""
    reserved = min(max(mem_bytes // RESERVED_SHARE, RESERVED_MIN_BYTES), RESERVED_MAX_BYTES, mem_bytes // 2)
    return ResourceSlots({**(devices or {}), CPU: cpu_milli, MEM: mem_bytes - reserved})
