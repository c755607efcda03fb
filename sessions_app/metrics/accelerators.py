"""What the accelerators that a kernel holds do, and how much that is of what it holds. Pure.

A device tells what all do on it together. That is what one kernel does only where nobody else holds a part of it; otherwise
nobody can say who does what, and nothing ends for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.discovery.base import DeviceUse
from common.values.resources import CPU, MEM, MILLI

FULL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Held:
    """A kernel's part of the devices of one kind: so many thousandths of a device, on these, each with its memory in bytes."""

    kernel_id: object
    milli: int
    devices: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Share:
    """What a kernel holds of accelerators: `milli` thousandths of a device on `count` devices, which have `mem_bytes` together.
    `is_alone`: nobody else holds a part of any of them."""

    milli: int
    count: int
    mem_bytes: int
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Present:
    """What a kernel's devices do now, whoever has them do it: the mean of their use, rounded up, so that a little is never nothing;
    and all memory that is taken. None: one of them does not tell."""

    share: Share
    percent: int | None
    mem_bytes: int | None


def present_by_kernel(held: Sequence[Held], uses: Iterable[DeviceUse]) -> dict[object, Present]:
    """{kernel: what its devices do}, of kernels that hold any. `held`: by everybody who holds something of these machines."""
    told = {use.device_id: use for use in uses}
    holders: dict[str, set[object]] = {}
    for each in held:
        for device_id in each.devices:
            holders.setdefault(device_id, set()).add(each.kernel_id)
    found: dict[object, list[Held]] = {}
    for each in held:
        found.setdefault(each.kernel_id, []).append(each)
    return {kernel_id: _present(parts, told, holders) for kernel_id, parts in found.items()}


def _present(
    parts: Sequence[Held], told: Mapping[str, DeviceUse], holders: Mapping[str, set[object]]
) -> Present:
    devices = {device_id: mem for part in parts for device_id, mem in part.devices.items()}
    share = Share(
        milli=sum(part.milli for part in parts),
        count=len(devices),
        mem_bytes=sum(devices.values()),
        is_alone=all(len(holders[device_id]) == 1 for device_id in devices),
    )
    percents = [told[device_id].percent if device_id in told else None for device_id in devices]
    amounts = [told[device_id].mem_bytes if device_id in told else None for device_id in devices]
    total = known_sum(percents)
    return Present(share, None if total is None else -(-total // share.count), known_sum(amounts))


@dataclass(frozen=True, slots=True)
class Amount:
    """Of one thing, in base units: how much is used, None where nobody can say; and how much is held."""

    used: int | None
    held: int


NOT_MEASURED = Amount(None, 0)


def amounts_of(share: Share, percent: int | None, mem_bytes: int | None) -> tuple[Amount, Amount]:
    """(devices in thousandths, their memory in bytes) of a kernel whose devices are used like that. It holds its part of their memory: a
    tenth of a device that is used for a tenth of the time is used fully. Not known where others hold a part of them too."""
    used_milli = (
        percent * share.count * MILLI // FULL_PERCENT if percent is not None and share.is_alone else None
    )
    held_bytes = share.mem_bytes * share.milli // (share.count * MILLI)
    return Amount(used_milli, share.milli), Amount(mem_bytes if share.is_alone else None, held_bytes)


def device_milli_of(slots: Mapping[str, int]) -> int:
    """Thousandths of accelerators among these amounts, of whatever kind."""
    return sum(amount for name, amount in slots.items() if name not in (CPU, MEM))


def known_sum(amounts: Sequence[int | None]) -> int | None:
    """None where one is not known, or there is none."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
