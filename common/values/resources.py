"""ResourceSlots: amounts per slot name, integers in base units.

`cpu` in millicores, `mem` in bytes, every other slot in milli-devices (1000 = one whole device).
A request may ask for a part of one device by `cuda.mem` (bytes of its memory) and `cuda.cores`
(thousandths of a percent of its compute); admission turns both into an amount of `cuda`.
This module alone converts to and from the units of users and the API: cores, "4g", devices.
"""

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from common.i18n import gettext as _
from common.i18n import ngettext
from common.values.text import quoted

CPU = "cpu"
MEM = "mem"
MILLI = 1000
MAX_AMOUNT = 2**53 - 1  # exact in every JSON parser; as memory, 8 PiB
MAX_PER_CONTAINER = 2**47 - 1  # container: exceeds any machine, and sums still fit in the database

PART_MEM, PART_CORES = ".mem", ".cores"
"""Ends of the names of parts of a device."""
MIG = "mig-"
"""Beginning of the slots of MIG profiles: slices of 1g.10gb are the slot mig-1g-10gb."""

SLOT_TITLES = {
    "ascend": "Huawei Ascend",
    "atom": "Rebellions ATOM",
    "cuda": "NVIDIA GPU",
    "gaudi": "Intel Gaudi",
    "groq": "Groq",
    "ipu": "Graphcore IPU",
    "lpu": "HyperAccel LPU",
    "mlu": "Cambricon MLU",
    "mock": "Mock",
    "neuron": "AWS Neuron",
    "rdu": "SambaNova RDU",
    "rngd": "Furiosa RNGD",
    "rocm": "AMD GPU",
    "sapeon": "Sapeon",
    "tenstorrent": "Tenstorrent",
    "tpu": "Google TPU",
    "warboy": "Furiosa Warboy",
    "xpu": "Intel GPU",
}
"""Names of the accelerators of shipped vendor descriptions, by slot. Others are named by their slot."""

_SLOT_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}\Z")
_NUMBER = re.compile(r"(?=\.?\d)\d{0,15}(?:\.\d{0,9})?\Z", re.ASCII)
# A comma is only allowed in 1,000 to 1,023 of a unit, as shown by us: "1,5" would be ambiguous.
_BYTES = re.compile(
    r"(\d{1,15}(?:\.\d{1,6})?|1,0\d\d(?:\.\d)?)\s*([kmgtp]?)(?:i?b)?\Z", re.IGNORECASE | re.ASCII
)
_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


class ResourceSlots(Mapping[str, int]):
    """Immutable amounts. An absent slot means zero, and zeros are dropped."""

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts = {name: int(amount) for name, amount in sorted((amounts or {}).items()) if amount}

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()  # ten times faster than Mapping's, as ticks read many

    def __hash__(self) -> int:
        return hash(tuple(self._amounts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSlots) and self._amounts == other._amounts

    def __repr__(self) -> str:
        return f"ResourceSlots({self._amounts})"

    def __add__(self, other: "ResourceSlots") -> "ResourceSlots":
        return ResourceSlots({name: self[name] + other[name] for name in {*self, *other}})

    def __sub__(self, other: "ResourceSlots") -> "ResourceSlots":
        return ResourceSlots({name: self[name] - other[name] for name in {*self, *other}})

    def __mul__(self, count: int) -> "ResourceSlots":
        return ResourceSlots({name: amount * count for name, amount in self.items()})

    def fits_in(self, room: "ResourceSlots") -> bool:
        """Return True if `room` has at least this amount of every slot."""
        return all(amount <= room[name] for name, amount in self.items())

    def to_json(self) -> dict[str, int]:
        return dict(self._amounts)


def placeable_count(
    containers: Sequence[ResourceSlots], machines: Sequence[ResourceSlots], *, is_spread: bool
) -> int:
    """Return how many containers of these amounts fit on machines of these, each as a whole and the
    largest first; `is_spread`: each on another machine.
    """
    free, placed = list(machines), 0
    for slots in sorted(containers, key=lambda each: sorted(each.values()), reverse=True):
        place = next((number for number, room in enumerate(free) if slots.fits_in(room)), None)
        if place is not None:
            placed += 1
            rest = ResourceSlots() if is_spread else free[place] - slots
            free[place] = rest
    return placed


def is_slot_name(text: str) -> bool:
    return _SLOT_NAME.match(text) is not None


def split_part(name: str) -> tuple[str, str]:
    """Return the slot and the end of the name of a part of a device: ("cuda", ".mem"), ("cuda", "")."""
    end = next((end for end in (PART_MEM, PART_CORES) if name.endswith(end)), "")
    return name.removesuffix(end), end


def is_memory(name: str) -> bool:
    """Return True if amounts of this name are bytes."""
    return name == MEM or name.endswith(PART_MEM)


def mig_slot(profile: str) -> str:
    """Return the slot of a MIG profile: "mig-1g-10gb" for "1g.10gb"."""
    return MIG + re.sub(r"[.+]", "-", profile.strip().lower())


def slot_title(name: str) -> str:
    """Return the name of a slot for people: "Memory", "NVIDIA GPU", "MIG 1g.10gb"; the slot itself if
    unknown.
    """
    if name in (CPU, MEM):
        return _("CPU") if name == CPU else _("Memory")
    if name.startswith(MIG):
        return f"MIG {name.removeprefix(MIG).replace('-', '.', 1).replace('-', '+')}"
    return SLOT_TITLES.get(name, name)


def parse_bytes(text: object, most: int = MAX_AMOUNT) -> int:
    """Return the bytes of "512m", "4g", "1.5 GiB", "1,000 MiB", or a plain number; k, m, g, t, p
    are powers of 1024. Raises ValueError with a sentence that quotes the value.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        amount = text
    else:
        match = _BYTES.match(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ValueError(
                _("{value} is not an amount of memory. Write it like 512m or 4g.").format(value=quoted(text))
            )
        amount = int(Decimal(match[1].replace(",", "")) * _FACTORS[match[2].lower()])
    if amount > most:
        raise ValueError(_("{value} is more memory than any machine has.").format(value=quoted(text)))
    return amount


def parse_milli(name: str, value: object, most: int = MAX_AMOUNT) -> int:
    """Return thousandths of `value` cores or devices: 1 → 1000, "0.5" → 500. Raises ValueError."""
    amount = _number(value)
    if amount is None or amount != amount.to_integral_value():
        raise ValueError(
            _("{value} is not an amount of {resource}. Write a number like 1 or 0.5.").format(
                value=quoted(value), resource=name
            )
        )
    if amount > most:
        raise ValueError(
            _("{value} is more {resource} than any machine has.").format(value=quoted(value), resource=name)
        )
    return int(amount)


def _number(value: object) -> Decimal | None:
    """Return thousandths of a plain, non-negative decimal number, else None. The size is checked
    first: computing with an exponent of nine digits would take minutes.
    """
    if isinstance(value, str):
        return Decimal(value.strip()) * MILLI if _NUMBER.match(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        return None
    return Decimal(repr(value) if value <= MAX_AMOUNT else MAX_AMOUNT + 1) * MILLI


def parse_slots(raw: Mapping[str, object], *, has_parts: bool = False) -> ResourceSlots:
    """Return user input ({"cpu": 1, "mem": "4g", "cuda": 1}) in base units. With `has_parts`, also
    parts of a device ({"cuda.mem": "20g", "cuda.cores": 30}). Raises ValueError.
    """
    amounts = {}
    for name, value in raw.items():
        slot, end = split_part(name)
        if not is_slot_name(slot) or (end and (slot in (CPU, MEM) or not has_parts)):
            raise ValueError(
                _("{name} is not the name of a resource. Use cpu, mem or a device name.").format(
                    name=quoted(name)
                )
            )
        amounts[name] = (
            parse_bytes(value, MAX_PER_CONTAINER)
            if is_memory(name)
            else parse_milli(name, value, MAX_PER_CONTAINER)
        )
    return ResourceSlots(amounts)


def format_bytes(amount: int) -> str:
    """Format bytes with at most one decimal: "512 MiB", "1.5 GiB"."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if amount >= factor:
            return f"{amount / factor:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount} B"


def format_version(version: int) -> str:
    """Format a version of CUDA or ROCm: 12040 is "12.4"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def format_amount(name: str, amount: int) -> str:
    """Format an amount of one slot: "0.5 cores", "4 GiB", "2 × NVIDIA GPU", "12,800 cores"."""
    if name == MEM:
        return format_bytes(amount)
    number = _plain(amount)
    slot, part = split_part(name)
    if part:
        whole = format_bytes(amount) if part == PART_MEM else f"{number} %"
        return _("{amount} of one {device}").format(amount=whole, device=slot_title(slot))
    if name == CPU:
        is_one = amount == MILLI
        return ngettext("{number} core", "{number} cores", 1 if is_one else 2).format(number=number)
    title = slot_title(name)
    return f"{number} {name}" if title == name else f"{number} × {title}"


def format_share(name: str, used: int, limit: int) -> tuple[str, str]:
    """Format used amount and limit: ("2", "64 cores"), ("512 MiB", "22.4 GiB")."""
    whole = format_amount(name, limit)
    if name != MEM:
        return _plain(used), whole
    part = format_bytes(used)
    number, _space, unit = part.partition(" ")
    return (part if used and unit != whole.partition(" ")[2] else number), whole


def _plain(milli: int) -> str:
    return f"{milli / MILLI:,.3f}".rstrip("0").rstrip(".")


def format_slots(slots: Mapping[str, int]) -> str:
    """Format all slots, CPU and memory first: "1 core, 4 GiB"."""
    return _(", ").join(format_slot_list(slots)) or _("nothing")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort slot names for display: cores, memory, then devices by name."""
    return sorted(names, key=lambda name: (name != CPU, name != MEM, name))


def format_slot_list(slots: Mapping[str, int]) -> list[str]:
    """Format each slot, CPU and memory first: ["1 core", "4 GiB"]."""
    order = in_order(slots)
    return [format_amount(name, slots[name]) for name in order]
