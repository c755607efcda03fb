"""Computes kernels' use of accelerators from device measurements and allocations. Pure.

A device reports the use by all its kernels together. That is one kernel's use only if no other
kernel shares the device; otherwise it is unknown, and no session ends for it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.accelerators.base import DeviceUse
from common.values.resources import CPU, MEM, MILLI

FULL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """Allocation of a kernel on devices of one kind, in thousandths of a device.

    `devices`: memory in bytes of each device, by its primary key; None where used memory says nothing
    about work, as frameworks take all of it.
    """

    kernel_id: object
    milli: int
    devices: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Accelerators allocated to a kernel: `milli` thousandths on `count` devices.

    `mem_bytes`: total memory of these devices; None if it is not to be judged. `is_alone`: no other
    kernel shares any of them.
    """

    milli: int
    count: int
    mem_bytes: int | None
    is_alone: bool


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Current use of a kernel's devices by all kernels.

    `percent`: mean utilisation, `activity`: mean of `DeviceUse.activity`, both rounded up so that
    little use is not 0. `mem_bytes`: used memory. None if one device does not report it.
    """

    share: DeviceShare
    percent: int | None
    mem_bytes: int | None
    activity: int | None


def device_usage_by_kernel(
    allocated: Sequence[DeviceAllocation], uses: Mapping[int, DeviceUse]
) -> dict[object, DeviceUsage]:
    """Return {kernel id: use of its devices}, for kernels with devices.

    `allocated` must include all kernels on these machines; `uses` are by primary keys.
    """
    holders: dict[int, set[object]] = {}
    for each in allocated:
        for key in each.devices:
            holders.setdefault(key, set()).add(each.kernel_id)
    found: dict[object, list[DeviceAllocation]] = {}
    for each in allocated:
        found.setdefault(each.kernel_id, []).append(each)
    return {kernel_id: _device_usage(parts, uses, holders) for kernel_id, parts in found.items()}


def _device_usage(
    parts: Sequence[DeviceAllocation],
    uses: Mapping[int, DeviceUse],
    holders: Mapping[int, set[object]],
) -> DeviceUsage:
    devices = {key: mem for part in parts for key, mem in part.devices.items()}
    share = DeviceShare(
        milli=sum(part.milli for part in parts),
        count=len(devices),
        mem_bytes=known_sum(list(devices.values())),
        is_alone=all(len(holders[key]) == 1 for key in devices),
    )
    reported = [uses.get(key) for key in devices]
    percent, activity = (
        None if total is None else -(-total // share.count)
        for name in ("percent", "activity")
        for total in [known_sum([getattr(use, name, None) for use in reported])]
    )
    return DeviceUsage(
        share, percent, known_sum([None if use is None else use.mem_bytes for use in reported]), activity
    )


def own_memory(
    devices: Iterable[int], uses: Mapping[int, DeviceUse], process_ids: Collection[int]
) -> dict[int, int]:
    """Return {device: memory in bytes that these processes use on it}; omits devices whose driver does
    not tell it for each process.
    """
    found = {}
    for key in devices:
        told = uses[key].processes if key in uses else None
        own = [each.mem_bytes for each in told or () if each.pid in process_ids]
        if told is not None and None not in own:
            found[key] = sum(amount for amount in own if amount is not None)
    return found


@dataclass(frozen=True, slots=True)
class Amount:
    """Used (None: unknown) and allocated amount of one resource, in base units."""

    used: int | None
    allocated: int


NOT_MEASURED = Amount(None, 0)


def amounts_of(share: DeviceShare, percent: int | None, mem_bytes: int | None) -> tuple[Amount, Amount]:
    """Return (devices in thousandths, device memory in bytes) of a kernel with this device use.

    Its memory allocation is its share of the devices' memory: a tenth of a device that is busy for
    a tenth of the time is fully used. Use is unknown if other kernels share the devices.
    """
    used_milli = (
        percent * share.count * MILLI // FULL_PERCENT if percent is not None and share.is_alone else None
    )
    if share.mem_bytes is None:
        return Amount(used_milli, share.milli), NOT_MEASURED
    held_bytes = share.mem_bytes * share.milli // (share.count * MILLI)
    return Amount(used_milli, share.milli), Amount(mem_bytes if share.is_alone else None, held_bytes)


def device_milli_of(slots: Mapping[str, int]) -> int:
    """Return the thousandths of accelerators of all kinds among these amounts."""
    return sum(amount for name, amount in slots.items() if name not in (CPU, MEM))


def known_sum(amounts: Sequence[int | None]) -> int | None:
    """Return the sum; None if an amount is unknown or there is none."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
