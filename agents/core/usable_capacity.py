"""Capacity of a machine that sessions may use. Pure."""

from collections.abc import Mapping

from common.values.resources import CPU, MEM, ResourceSlots

RESERVED_SHARE = 20  # reserves one twentieth of the memory
RESERVED_MIN_BYTES = 512 * 2**20
RESERVED_MAX_BYTES = 4 * 2**30


def usable_capacity(
    cpu_milli: int, mem_bytes: int, devices: Mapping[str, int] | None = None
) -> ResourceSlots:
    """Return the capacity for sessions: all devices, all cores (shared by weight), and the memory
    minus a reserve for the machine and its engine, because memory cannot be shared. The reserve is
    a twentieth, at least 512 MiB, at most 4 GiB and never more than half.
    """
    reserved = min(max(mem_bytes // RESERVED_SHARE, RESERVED_MIN_BYTES), RESERVED_MAX_BYTES, mem_bytes // 2)
    return ResourceSlots({**(devices or {}), CPU: cpu_milli, MEM: mem_bytes - reserved})
